"""A node's way in as a value: its sentence, what changes it, and what differs from the last success."""

import msgspec
import pytest

from hub.ssh.cause import Cause
from hub.ssh.reach import Basis, Reach, Source, State, Suggestion, differences
from hub.ssh.targets import Target

NOW_MS = 1_796_044_239_750
DAY_MS = 86_400_000
TARGET = Target("h", 22, "root")
BASIS = Basis(
    target="root@h:22",
    host_keys=("ssh-ed25519 AAAAone", "ssh-rsa BBBBtwo"),
    fingerprints=("SHA256:a",),
    ssh_version="OpenSSH_9.2p1",
    version="0.1.0",
    host="hub-1",
    user="provewire",
    pid=7,
)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time  # noqa: PLC0415 - its zone is changed here only

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_the_sentence_of_every_state() -> None:
    reach = Reach(node_id="n")
    assert reach.sentence(NOW_MS) == "no way in"
    reach = reach.with_target(TARGET, Source.OPERATOR, NOW_MS)
    assert reach.sentence(NOW_MS) == "fallback unproved"
    reach = reach.proved(NOW_MS, BASIS)
    assert reach.sentence(NOW_MS) == "fallback proved 13:10"
    assert reach.sentence(NOW_MS + 2 * DAY_MS) == "fallback proved 2026-11-30 13:10"
    broken = reach.broken(NOW_MS + 1, Cause.IDENTITY_REFUSED, "root@h: Permission denied (publickey).")
    assert broken.sentence(NOW_MS) == "fallback broken: Permission denied (publickey)"
    assert reach.broken(NOW_MS, Cause.DEADLINE, "").sentence(NOW_MS) == "fallback broken: deadline"


def test_what_a_server_says_is_short_and_harmless_in_the_sentence() -> None:
    reach = Reach(node_id="n", target=TARGET).broken(NOW_MS, Cause.UNRECOGNISED, "\x1b[2J\u202e" + "x" * 5000)
    sentence = reach.sentence(NOW_MS)
    assert "\x1b" not in sentence
    assert "\u202e" not in sentence
    assert len(sentence) < 300


def test_broken_counts_from_the_first_failure_of_its_kind() -> None:
    reach = Reach(node_id="n", target=TARGET).proved(NOW_MS, BASIS)
    first = reach.broken(NOW_MS + 10, Cause.REFUSED, "a")
    again = first.broken(NOW_MS + 20, Cause.REFUSED, "b")
    other = again.broken(NOW_MS + 30, Cause.IDENTITY_REFUSED, "c")
    assert [r.broken_since_ms for r in (first, again, other)] == [NOW_MS + 10, NOW_MS + 10, NOW_MS + 30]
    assert other.proved_at_ms == NOW_MS
    assert other.basis == BASIS
    mended = other.proved(NOW_MS + 40, BASIS)
    assert (mended.broken_since_ms, mended.cause, mended.evidence) == (None, Cause.OK, "")


def test_a_change_of_target_or_keys_makes_it_unproved_and_none_changes_nothing() -> None:
    reach = Reach(node_id="n", target=TARGET, host_keys=("k 1",)).proved(NOW_MS, BASIS)
    for changed in (
        reach.with_target(Target("other"), Source.IMPORT, NOW_MS + 5),
        reach.with_host_keys(("k 2",), Source.OPERATOR, NOW_MS + 5),
        reach.with_jump_keys("gate", ("k 3",), NOW_MS + 5),
    ):
        assert (changed.state, changed.changed_at_ms) == (State.UNPROVED, NOW_MS + 5)
        assert changed.basis == BASIS
    assert reach.with_target(TARGET, Source.OPERATOR, NOW_MS + 5) == reach
    assert reach.with_host_keys(("k 1",), Source.NODE, NOW_MS + 5).state is State.PROVED


def test_other_host_keys_than_the_pinned_ones_are_noticed() -> None:
    said = Suggestion(target=TARGET, host_keys=("k 1", "k 2"))
    reach = Reach(node_id="n", suggested=said)
    assert not reach.host_keys_differ
    assert not msgspec.structs.replace(reach, host_keys=("k 2",)).host_keys_differ
    assert msgspec.structs.replace(reach, host_keys=("k 3",)).host_keys_differ


def test_each_difference_is_a_line() -> None:
    assert differences(None, BASIS) == ("no login has succeeded before",)
    assert differences(BASIS, BASIS) == ()
    now = msgspec.structs.replace(
        BASIS,
        target="root@other:22",
        host_keys=("ssh-ed25519 AAAAone",),
        fingerprints=(),
        ssh_version="OpenSSH_10.0p2",
        version="0.2.0",
        host="hub-2",
        user="root",
        pid=8,
    )
    assert differences(BASIS, now) == (
        "target: root@h:22 then, root@other:22 now",
        "pinned host keys: ssh-ed25519 ...AAAAone, ssh-rsa ...BBBBtwo then, ssh-ed25519 ...AAAAone now",
        "the hub's key: SHA256:a then, none now",
        "ssh: OpenSSH_9.2p1 then, OpenSSH_10.0p2 now",
        "hub's version: 0.1.0 then, 0.2.0 now",
        "hub's host: hub-1 then, hub-2 now",
        "hub's user: provewire then, root now",
        "hub's process (restarted): 7 then, 8 now",
    )
