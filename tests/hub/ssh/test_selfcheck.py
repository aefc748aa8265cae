"""The hub names what is wrong on its own side, and makes good what can be."""

import contextlib
import os
import resource
from pathlib import Path

import pytest

from hub.ssh import selfcheck
from hub.ssh.argv import Way
from hub.ssh.cause import Cause
from hub.ssh.identity import make
from hub.ssh.selfcheck import Finding, Memory, look
from hub.ssh.targets import Target
from tests.hub.ssh.sshd import needs_sshd

HOST = Target("203.0.113.5", 22022)


@pytest.fixture
def way(tmp_path: Path) -> Way:
    made = make(tmp_path / "ssh" / "key", "hub")
    return Way(identities=(made.path,), known_hosts=tmp_path / "ssh" / "known_hosts", runtime_dir=tmp_path / "r")


async def causes(way: Way, known: selfcheck.Pins = (), before: tuple[str, ...] | None = None) -> list[Cause]:
    seen = await look(way, known, fingerprints_before=before)
    return [finding.cause for finding in seen.findings if finding.cause is not Cause.NETWORK_UNREACHABLE]


@pytest.fixture(autouse=True)
def short_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own folders are too deep for sockets, which has a test of its own."""
    monkeypatch.setattr(selfcheck, "check_runtime_dir", lambda _: None)


@needs_sshd
async def test_nothing_is_wrong_and_the_second_look_says_so_too(way: Way) -> None:
    way.runtime_dir.mkdir()
    seen = await look(way, (), fingerprints_before=None)
    assert seen.ssh_version.startswith("OpenSSH_")
    assert len(seen.fingerprints) == 1
    assert await causes(way, before=seen.fingerprints) == []


async def test_a_replaced_key_is_named_with_both_fingerprints(way: Way) -> None:
    way.runtime_dir.mkdir()
    before = (await look(way, (), fingerprints_before=None)).fingerprints
    after = make(way.identities[0], "another").fingerprint
    (finding,) = (await look(way, (), fingerprints_before=before)).findings[:1]
    assert finding.cause is Cause.IDENTITY_REFUSED
    assert before[0] in finding.sentence
    assert after in finding.sentence


@pytest.mark.parametrize("broken", ["gone", "open", "damaged"])
async def test_a_key_that_cannot_be_used(way: Way, broken: str) -> None:
    way.runtime_dir.mkdir()
    (path,) = way.identities
    expected = {"gone": Cause.KEY_MISSING, "open": Cause.KEY_UNPROTECTED, "damaged": Cause.KEY_DAMAGED}[broken]
    match broken:
        case "gone":
            path.unlink()
        case "open":
            path.chmod(0o644)
        case _:
            path.write_bytes(b"")
    assert await causes(way) == [expected]


async def test_a_lost_or_changed_known_hosts_is_written_anew_and_said(way: Way) -> None:
    way.runtime_dir.mkdir()
    public = make(way.known_hosts.with_name("host"), "x").public
    known = [(HOST, [public])]
    assert await causes(way, known) == [Cause.HOST_KEY_UNKNOWN]
    assert way.known_hosts.read_text() == f"[203.0.113.5]:22022 {public}\n"
    assert await causes(way, known) == []
    way.known_hosts.write_text("something else\n")
    (finding,) = (await look(way, known, fingerprints_before=None)).findings[:1]
    assert "had been changed" in finding.sentence
    assert await causes(way, known) == []


async def test_the_folder_for_sockets_is_made_anew(way: Way) -> None:
    assert await causes(way) == [Cause.CONTROL_PATH_UNUSABLE]
    assert way.runtime_dir.stat().st_mode & 0o777 == 0o700
    assert await causes(way) == []
    way.runtime_dir.rmdir()
    way.runtime_dir.write_text("a file in its place")
    assert await causes(way) == [Cause.CONTROL_PATH_UNUSABLE]


async def test_there_is_no_ssh(way: Way) -> None:
    way.runtime_dir.mkdir()
    fields = {name: getattr(way, name) for name in Way.__struct_fields__}
    assert await causes(Way(**{**fields, "ssh": "/nowhere/ssh"})) == [Cause.SSH_MISSING]


def test_descriptors_run_out() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 1, hard))
    try:
        assert selfcheck._descriptors()[0].cause is Cause.OUT_OF_DESCRIPTORS
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert selfcheck._descriptors() == []


async def test_without_descriptors_nothing_else_is_blamed(way: Way) -> None:
    way.runtime_dir.mkdir()
    known = [(HOST, [make(way.known_hosts.with_name("host"), "x").public])]
    assert await causes(way, known) == [Cause.HOST_KEY_UNKNOWN]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, soft), hard))
    held = []
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(way.runtime_dir, os.O_RDONLY))
        found = await causes(way, known, before=("SHA256:before",))
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(found) == {Cause.OUT_OF_DESCRIPTORS}
    assert await causes(way, known) == []


def test_a_problem_keeps_its_beginning_and_is_forgotten_after_a_while() -> None:
    memory = Memory(forget_ms=600_000)
    gone = Finding(Cause.KEY_MISSING, "gone")
    assert memory.take([gone], 1_000)[0].since_ms == 1_000
    assert memory.take([gone], 61_000)[0].since_ms == 1_000
    assert [problem.since_ms for problem in memory.take([], 600_000)] == [1_000], "it may explain what is seen now"
    assert memory.take([], 700_000) == []


async def test_names_that_cannot_be_resolved_are_told_when_none_can_be() -> None:
    gone = ["a.invalid", "b.invalid", "203.0.113.5", "c.invalid", "d.invalid"]
    (finding,) = await selfcheck.names(gone)
    assert finding == Finding(
        Cause.NAME_RESOLUTION, "no name of a node can be resolved: a.invalid, b.invalid, c.invalid"
    )
    assert await selfcheck.names(["a.invalid", "localhost"]) == []
    assert await selfcheck.names(["a.invalid", "203.0.113.5", "2001:db8::1"]) == [], "one alone may be wrong itself"
    assert await selfcheck.names(["x" * 70 + ".invalid", "b.invalid"]) != []
