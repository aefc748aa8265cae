from pathlib import Path

import pytest

from agent.backoff import Fault, Kind
from agent.reasons import KEPT, PastReason, Reasons, load_reasons

NETWORK = Fault(Kind.UNREACHABLE, "network", "nobody there")
SILENT = Fault(Kind.UNREACHABLE, "SILENT_PEER", "nothing was heard", code=16)


def test_the_same_reason_again_is_counted_and_another_one_added() -> None:
    reasons = Reasons()
    assert reasons.note(SILENT, 1, 61.26)
    assert reasons.note(NETWORK, 2, None)
    assert not reasons.note(NETWORK, 3, None)
    assert reasons.newest_first() == [
        PastReason(at_ms=3, name="network", detail="nobody there", times=2),
        PastReason(at_ms=1, name="SILENT_PEER", detail="nothing was heard", code=16, open_s=61.3),
    ]


def test_only_the_last_are_kept() -> None:
    reasons = Reasons()
    for number in range(KEPT + 5):
        reasons.note(Fault(Kind.UNREACHABLE, "network", str(number)), number, None)
    assert [each.detail for each in reasons.newest_first()] == [str(each) for each in range(KEPT + 4, 4, -1)]


def test_they_survive_a_restart(tmp_path: Path) -> None:
    reasons = Reasons()
    reasons.note(SILENT, 1, 5.0)
    reasons.save(tmp_path / "reasons.json")
    again = load_reasons(tmp_path / "reasons.json")
    assert again.newest_first() == reasons.newest_first()
    assert not again.note(SILENT, 9, 5.0)


@pytest.mark.parametrize("raw", [None, b"", b"{", b"[1]", b'[{"at_ms":"x","name":1,"detail":""}]'])
def test_a_file_that_cannot_be_used_costs_nothing(tmp_path: Path, raw: bytes | None) -> None:
    if raw is not None:
        (tmp_path / "reasons.json").write_bytes(raw)
    assert load_reasons(tmp_path / "reasons.json").newest_first() == []
