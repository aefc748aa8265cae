"""``provewire alerts`` against a hub that runs."""

import asyncio
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cli.alerts import lines, seconds
from cli.errors import EXIT_INTERNAL, EXIT_OK, EXIT_USAGE
from cli.main import main
from hub import ports
from hub.alerts.facts import Rule
from tests.cli.test_enroll import announce
from tests.hub.rig import running_hub

LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[")
"""The hub of this process logs to standard output, too."""
ADDRESS = "json://127.0.0.1:9/a-secret-path"


async def test_channels_rules_silences_and_a_test_that_does_not_arrive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hub").mkdir()
    async with running_hub(tmp_path / "hub") as hub:
        announce(tmp_path / "hub", f"http://127.0.0.1:{hub.port}")

        async def said(*argv: str) -> tuple[int, str]:
            code = await asyncio.to_thread(main, ["alerts", *argv, "--data-dir", str(tmp_path / "hub")])
            out, err = capsys.readouterr()
            assert "a-secret-path" not in out + err
            return code, "".join(line for line in (out + err).splitlines(keepends=True) if not LOGGED.match(line))

        assert await said("list") == (EXIT_OK, "nothing fires\n")
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{ADDRESS}\n"))
        code, text = await said("add-channel", "on call", "--severity", "critical")
        assert code == EXIT_OK
        assert "on call (json://127.0.0.1:9/..., critical and more): never used" in text
        code, text = await said("test", "on call")
        assert code == EXIT_INTERNAL
        assert "test to on call" in text
        assert "failed: 127.0.0.1 is this machine itself" in text
        assert "does not arrive" in (await said("channels"))[1]
        assert await said("remove-channel", "on call") == (EXIT_OK, "removed\n")
        code, text = await said("rule", "gpu_temperature", "--bad", "80", "--clear", "70", "--severity", "critical")
        assert (code, text.splitlines()[0].startswith("gpu_temperature (critical, changed): bad 80")) == (EXIT_OK, True)
        assert hub.app[ports.ALERTS].book.limits()[Rule.GPU_TEMPERATURE].bad == 80
        code, text = await said("rule", "gpu_temperature", "--bad", "1")
        assert (code, "clear must be below bad" in text) == (EXIT_USAGE, True)
        assert "changed" not in (await said("rule", "gpu_temperature", "--reset"))[1]
        code, text = await said("silence", "--for", "2h", "--reason", "moving", "--rule", "node_lost")
        assert text.startswith("node_lost until 20")
        code, out = await said("silences", "--json")
        silence = json.loads(out)["silences"][0]
        assert silence["until_ms"] - silence["created_at_ms"] == 7_200_000
        assert (await said("unsilence", silence["id"]))[0] == EXIT_OK
        assert len((await said("rules"))[1].splitlines()) == 2 * len(Rule)
        assert (await said("ack", "01900000"))[0] == EXIT_USAGE


def alert(**more: Any) -> dict[str, Any]:
    return {
        "id": "01890a5d-ac96-774b-bcce-b302099a0001",
        "severity": "critical",
        "state": "firing",
        "headline": "2 nodes are lost",
        "detail": "nothing was heard",
        "remedy": "do this",
        "subjects": ["gpu-1", "gpu-2"],
        "count_max": 2,
        "flapping": True,
        "fired_at_ms": 1_764_000_000_000,
        "ended_at_ms": None,
        "acked_by": "ann",
        "ack_note": "mine",
        **more,
    }


def test_an_alert_says_what_who_and_what_to_do() -> None:
    first, *rest = lines("list", {"alerts": [alert()]})
    assert first.startswith("X 2 nodes are lost: firing since 20")
    assert first.endswith(", comes and goes  [01890a5d-ac96-774b-bcce-b302099a0001]")
    assert rest == ["    nothing was heard", "    gpu-1, gpu-2", "    ann looks after it: mine", "    do this"]
    ended = lines("history", {"alerts": [alert(state="resolved", ended_at_ms=1_764_000_600_000)]})
    assert "do this" not in "".join(ended)
    assert " until 20" in ended[0]


def test_times_are_written_with_their_unit() -> None:
    assert [seconds(text) for text in ("90", "90s", "15m", "2h", "7d")] == [90, 90, 900, 7200, 604_800]
    for text in ("", "h", "0", "-1h", "1.5h", "2w"):
        with pytest.raises(Exception, match="is no time"):
            seconds(text)
