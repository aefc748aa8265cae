"""authorized_keys: faults found, mended, and keys added, against what ssh-keygen and a real sshd make of the file."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.ssh.authorized import Fault, mended, read, with_key, without_key
from hub.ssh.cause import Cause
from tests.hub.ssh.sshd import HubSide, make_key, needs_sshd, running
from tests.wire.strategies import patiently

ED = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBmFM3Vdd4TtC3PGdZ5dB5mFM3Vdd4TtC3PGdZ5dB5m0"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
HUB = f"{OTHER} hub"


def faults(text: str) -> list[Fault]:
    return [finding.fault for finding in read(text).findings]


CASES: dict[str, tuple[str, list[Fault], int]] = {
    "empty": ("", [], 0),
    "one": (f"{ED} root@vm\n", [], 1),
    "comment line": (f"# {ED}{OTHER}\n\n{ED}\n", [], 1),
    "no final newline": (f"{ED} root@vm", [Fault.NO_FINAL_NEWLINE], 1),
    "fused with a comment": (f"{ED} root@vm{HUB}\n", [Fault.FUSED], 1),
    "fused with a blank": (f"{ED} root@vm {HUB}\n", [Fault.FUSED], 1),
    "fused without a comment": (f"{ED}{HUB}\n", [Fault.FUSED], 0),
    "windows": (f"{ED} root@vm\r\n{HUB}\r\n", [Fault.CRLF], 2),
    "wrapped": (f"{ED[:50]}\n{ED[50:]} root@vm\n", [Fault.WRAPPED], 0),
    "cut off": (f"{ED[:50]}\n", [Fault.UNREADABLE], 0),
    "from": (f'from="10.0.0.0/8" {ED}\n', [Fault.LIMITED], 1),
    "command with a key in quotes": (f'command="echo {ED}" {OTHER} hub\n', [Fault.LIMITED], 1),
    "expiry": (f'expiry-time="20200101" {ED}\n', [Fault.LIMITED], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_faults_are_found(name: str) -> None:
    text, expected, keys = CASES[name]
    reading = read(text)
    assert [finding.fault for finding in reading.findings] == expected
    assert len(reading.entries) == keys


@pytest.mark.parametrize("name", CASES)
def test_a_mended_file_keeps_every_key_and_has_no_fault_left(name: str) -> None:
    text, _, _ = CASES[name]
    better = mended(text)
    left = set(faults(better)) - {Fault.LIMITED, Fault.UNREADABLE}
    assert left == set()
    for entry in read(text).entries:
        found = read(better).entry(entry.key)
        assert found is not None
        assert found.options == entry.options
    assert mended(better) == better


def test_both_fused_keys_work_after_mending() -> None:
    for text in (f"{ED} root@vm{HUB}\n", f"{ED}{HUB}\n", f"{ED} a b{HUB}{ED}\n"):
        assert {entry.key for entry in read(mended(text)).entries} == {ED, OTHER}


@pytest.mark.parametrize("name", CASES)
def test_a_key_is_added_once_and_on_a_line_of_its_own(name: str) -> None:
    text, _, _ = CASES[name]
    added = with_key(text, HUB)
    assert read(added).entry(HUB) is not None
    assert with_key(added, HUB) == added
    assert added.startswith(text)
    for entry in read(text).entries:
        assert read(added).entry(entry.key) == entry


@pytest.mark.parametrize("name", CASES)
def test_a_key_is_taken_out_and_every_other_line_stays(name: str) -> None:
    text, _, _ = CASES[name]
    for before in (text, with_key(text, HUB), with_key(f"{HUB}\n{text}", HUB)):
        after = without_key(before, HUB)
        others = [entry.key for entry in read(before).entries if entry.key != OTHER]
        assert [entry.key for entry in read(after).entries if entry.key != OTHER] == others
        assert set(after.split("\n")) <= set(before.split("\n"))
        assert without_key(after, HUB) == after
    if read(text).entry(HUB) is None:
        assert without_key(with_key(text, HUB), HUB) == (text if text.endswith("\n") or not text else f"{text}\n")


def test_a_line_that_holds_another_key_too_is_not_taken_out() -> None:
    assert without_key(f"{HUB}{ED} a\n", HUB) == f"{HUB}{ED} a\n"


@pytest.mark.parametrize(
    "public", ["", "ssh-ed25519", "ssh-ed25519 AAAA", f"{ED}\n{OTHER}", ED.replace("ssh-ed25519", "ssh-rsa")]
)
def test_only_a_key_is_added(public: str) -> None:
    with pytest.raises(ValueError, match="public key"):
        with_key("", public)


@patiently(300)
@given(
    st.lists(st.sampled_from([ED, HUB, "\n", "\r\n", " ", "#", 'from="x" ', "root@vm", ED[:40], "\t", "ssh-rsa AAAA"]))
)
def test_no_file_breaks_the_reader_and_mending_loses_no_key(pieces: list[str]) -> None:
    text = "".join(pieces)
    keys = {entry.key for entry in read(text).entries}
    assert keys <= {entry.key for entry in read(mended(text)).entries}
    assert keys | {OTHER} <= {entry.key for entry in read(with_key(text, HUB)).entries}


@needs_sshd
def test_ssh_keygen_reads_the_same_keys(tmp_path: Path) -> None:
    keys = [make_key(tmp_path / name).with_suffix(".pub").read_text().strip() for name in ("a", "b", "c")]
    fused = f"{keys[0]}{keys[1]}\n{keys[2]}"
    path = tmp_path / "authorized_keys"
    for text, count in ((fused, 2), (mended(fused), 3), ("\n".join(keys), 3)):
        path.write_text(text)
        listed = subprocess.run(["ssh-keygen", "-lf", str(path)], capture_output=True, text=True, check=True).stdout
        assert len(listed.splitlines()) == len(read(text).entries) == count


@needs_sshd
async def test_a_real_sshd_lets_in_whom_the_reader_says(tmp_path: Path) -> None:
    hub = HubSide(tmp_path, multiplexed=False)
    public = hub.identity.with_suffix(".pub").read_text().strip()
    first = make_key(tmp_path / "first").with_suffix(".pub").read_text().strip()
    bare = " ".join(first.split()[:2])
    async with running(tmp_path / "s") as server:
        hub.knows(server)
        for text in (
            f"{first}{public}\n",
            f"{bare}{public}\n",
            f"{first}\r\n{public}\r\n",
            f'from="203.0.113.1" {public}\n',
            f"{public}",
        ):
            for version in (text, mended(text), with_key(text, public)):
                server.authorized_keys.write_text(version, newline="")
                entry = read(version).entry(public)
                found = await hub.run(server)
                limited = entry is not None and "203.0.113.1" in entry.options
                assert (found.diagnosis.cause is Cause.OK) == (entry is not None and not limited), version
