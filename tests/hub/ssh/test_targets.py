"""What may be a target, and that nothing else can become an option or a word of a shell."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.ssh.argv import Way, ssh_argv
from hub.ssh.targets import JUMPS_MAX, Target, TargetRefused, parse, target
from tests.wire.strategies import patiently

WRITTEN = {
    "root@203.0.113.5": Target("203.0.113.5"),
    "203.0.113.5": Target("203.0.113.5"),
    "me@host.example:2222": Target("host.example", 2222, "me"),
    "host.example.": Target("host.example"),
    "ssh -p 22022 root@203.0.113.5": Target("203.0.113.5", 22022),
    "ssh -p22022 -l me 203.0.113.5": Target("203.0.113.5", 22022, "me"),
    "  ssh root@ssh5.vast.example -p 12345  ": Target("ssh5.vast.example", 12345),
    "ssh://me@host.example:2222/": Target("host.example", 2222, "me"),
    "ssh://me@[2001:db8::1]:2222": Target("2001:db8::1", 2222, "me"),
    "[2001:db8::1]:2222": Target("2001:db8::1", 2222),
    "2001:DB8:0::1": Target("2001:db8::1"),
    "root@fe80::1%eth0": Target("fe80::1%eth0"),
    "ssh -J a@j1:22022,j2 root@h": Target("h", jumps=(Target("j1", 22022, "a"), Target("j2"))),
    "DOMAIN\\\\me@h": Target("h", user="DOMAIN\\me"),
    "me@example.com@h": Target("h", user="me@example.com"),
    "under_score@a_b": Target("a_b", user="under_score"),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_what_people_write_is_read(text: str) -> None:
    assert parse(text) == WRITTEN[text]


@pytest.mark.parametrize("text", WRITTEN)
def test_what_is_shown_is_read_again(text: str) -> None:
    found = WRITTEN[text]
    if not found.jumps and "\\" not in found.user:
        assert parse(str(found)) == found


REFUSED = {
    "": "1 to 1024",
    "x" * 2000: "1 to 1024",
    "root@h\nProxyCommand=x": "printable",
    "-oProxyCommand=touch /tmp/x": "word",
    "-oProxyCommand=x": "host",
    "root@-oProxyCommand=x": "host",
    "-l@h": "user",
    "ssh -o ProxyCommand=x root@h": "'-o'",
    "ssh -oProxyCommand=x root@h": "-oProxyCommand",
    "ssh -F /tmp/config root@h": "'-F'",
    "ssh -A root@h": "'-A'",
    "ssh root@h rm -rf /": "'-rf'",
    "ssh root@h ls": "one user@host",
    "ssh": "one user@host",
    "ssh -p": "no value",
    "ssh -p 1 root@h:2": "port 2",
    "ssh -l a b@h": "names user b",
    "ssh 'root@h": "quotation",
    "a b": "one word",
    "root@h;id": "host",
    "root@$(id)": "host",
    "$(id)@h": "user",
    "`id`@h": "user",
    "root@h:0": "port",
    "root@h:65536": "port",
    "root@h:22x": "port",
    "root@h:\u0662\u0662": "port",
    "root@h:+22": "port",
    "root@1.2.3": "address",
    "root@1.2.3.4.5": "address",
    "root@0x7f000001": "address",
    "root@a..b": "host",
    "root@" + "a" * 64: "host",
    "root@" + ".".join(["a" * 60] * 5): "host",
    "a" * 65 + "@h": "user",
    "@h": "user",
    "root@": "host",
    "ssh://root:secret@h": "more than",
    "ssh://h/path": "more than",
    "ssh://h:99999": "Port",
    "root@10.0.0.1%eth0": "zone",
    "root@fe80::1%$(id)": "zone",
    "root@%h": "host",
    "root@h%h": "host",
    "root@b\u00fccher.example": "host",
    "ssh -J " + ",".join(["j"] * (JUMPS_MAX + 1)) + " h": "jump",
    "ssh -J -oProxyCommand=x h": "host",
}


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(TargetRefused, match=re.escape(REFUSED[text])):
        parse(text)


_WAY = Way(identities=(Path("/k"),), known_hosts=Path("/h"), runtime_dir=Path("/r"))


def allowed(found: Target) -> bool:
    return all(
        re.fullmatch(r"[A-Za-z0-9_:.%-]+", part.host)
        and re.fullmatch(r"[A-Za-z0-9_.@\\$-]+", part.user)
        and not part.host.startswith("-")
        and not part.user.startswith("-")
        for part in (found, *found.jumps)
    )


TRICKS = st.text(st.sampled_from("ab1-@:. $`'\"\\\n\t;|&<>(){}%=~/[]!#*?\x00\x1b\u00e4"), max_size=30)


@patiently(500)
@given(st.one_of(TRICKS, TRICKS.map("ssh {}".format), st.text(max_size=20)))
def test_no_text_becomes_an_option_or_a_second_word(way_text: str) -> None:
    try:
        found = parse(way_text)
    except TargetRefused:
        return
    assert allowed(found)


@patiently(300)
@given(TRICKS, st.one_of(TRICKS, st.integers()), TRICKS)
def test_a_nodes_own_suggestion_is_checked_like_any_other(host: str, port: str | int, user: str) -> None:
    try:
        found = target(host, port, user)
    except TargetRefused:
        return
    assert allowed(found)


@patiently(100)
@given(st.one_of(TRICKS, st.text(max_size=20)))
def test_only_the_last_argument_before_the_command_is_the_host(text: str) -> None:
    try:
        found = parse(text)
    except TargetRefused:
        return
    argv = ssh_argv(_WAY, found, "true")
    assert argv[-3:] == ["--", found.host, "true"]
    assert argv[argv.index("-l") + 1] == found.user
