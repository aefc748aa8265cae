"""Whose host key answers in place of a node's, from ssh's own words."""

from pathlib import Path

import pytest

from hub.ssh.answers import Answer, fingerprint_of, fingerprint_sent, who
from hub.ssh.identity import make
from hub.ssh.reach import Reach, Suggestion
from hub.ssh.targets import Target

CHANGED = b"""@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
The fingerprint for the ED25519 key sent by the remote host is
%s.
Please contact your system administrator.
"""
TARGET = Target("203.0.113.5", 22, "root")


def test_the_same_fingerprint_as_ssh_says(tmp_path: Path) -> None:
    made = make(tmp_path / "key", "host")
    key = (tmp_path / "key.pub").read_text()
    assert fingerprint_of(key) == made.fingerprint
    assert fingerprint_sent(CHANGED % made.fingerprint.encode()) == made.fingerprint


@pytest.mark.parametrize("key", ["", "ssh-ed25519", "ssh-ed25519 !!", "ssh-ed25519 AAA"])
def test_what_is_no_key_has_none(key: str) -> None:
    assert fingerprint_of(key) == ""


def test_other_words_say_none() -> None:
    assert fingerprint_sent(b"Permission denied (publickey).") == ""
    assert fingerprint_sent(CHANGED % b"SHA256:short") == ""


def test_another_node_is_known_by_what_is_pinned_or_by_its_own_word(tmp_path: Path) -> None:
    sent = make(tmp_path / "key", "host").fingerprint
    key = (tmp_path / "key.pub").read_text().strip()
    pinned = Reach(node_id="b", host_keys=(key,))
    says = Reach(node_id="c", suggested=Suggestion(target=TARGET, host_keys=(key,)))
    assert who(sent, "a", [Reach(node_id="a"), pinned]) == Answer("b", node=True)
    assert who(sent, "a", [says]) == Answer("c", node=True)
    assert who(sent, "b", [pinned]) == Answer(sent, node=False), "the node itself is not another"
    assert who(sent, "a", []) == Answer(sent, node=False)
