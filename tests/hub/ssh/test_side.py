"""The hub's own side: folders and keys, made once and in the right places."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hub.config import Config, ConfigError
from hub.ssh.argv import check_runtime_dir
from hub.ssh.side import IDENTITY_FILE, prepare, way_of


def config(path: Path, **settings: object) -> Config:
    return Config(data_dir=path, **settings)  # type: ignore[arg-type]  # a test's own


def test_identities_are_those_named_else_one_of_the_hubs_own(tmp_path: Path) -> None:
    assert way_of(config(tmp_path), {}).identities == (tmp_path / "ssh" / IDENTITY_FILE,)
    named = way_of(config(tmp_path, ssh_identities=" /a/one, /b/two ,"), {})
    assert named.identities == (Path("/a/one"), Path("/b/two"))
    assert named.known_hosts == tmp_path / "ssh" / "known_hosts"


def test_control_sockets_of_two_hubs_never_meet_and_their_folder_is_short_enough() -> None:
    with TemporaryDirectory(dir="/tmp") as session:
        surroundings = {"XDG_RUNTIME_DIR": session}
        ways = [way_of(config(Path(f"/nowhere/{name}" + "x" * 80)), surroundings) for name in ("one", "two")]
    assert ways[0].runtime_dir != ways[1].runtime_dir
    for way in ways:
        check_runtime_dir(way.runtime_dir)


def test_a_folder_that_is_named_is_taken_and_refused_when_too_long(tmp_path: Path) -> None:
    assert way_of(config(tmp_path, ssh_runtime_dir=Path("/run/pw")), {}).runtime_dir == Path("/run/pw")
    with pytest.raises(ConfigError, match="ssh_runtime_dir"):
        way_of(config(tmp_path, ssh_runtime_dir=Path("/run/" + "x" * 60)), {})


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    settings = config(tmp_path, ssh_runtime_dir=tmp_path / "r")
    way = way_of(config(tmp_path), {})
    made = prepare(way, settings, proved_before=False)
    assert made is not None
    assert made.usable
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert made.path.parent.stat().st_mode & 0o777 == 0o700
    before = made.path.read_bytes()
    assert prepare(way, settings, proved_before=False) is None
    assert made.path.read_bytes() == before


@pytest.mark.parametrize("what", ["proved before", "public half left", "named by the operator"])
def test_a_key_that_should_be_there_is_not_made_anew(tmp_path: Path, what: str) -> None:
    named = {"ssh_identities": str(tmp_path / "mine")} if what == "named by the operator" else {}
    settings = config(tmp_path, **named)
    way = way_of(settings, {})
    if what == "public half left":
        way.known_hosts.parent.mkdir()
        (way.known_hosts.parent / f"{IDENTITY_FILE}.pub").write_text("ssh-ed25519 AAAA\n")
    assert prepare(way, settings, proved_before=what == "proved before") is None
    assert not any(path.exists() for path in way.identities)
