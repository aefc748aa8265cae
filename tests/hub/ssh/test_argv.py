"""The command line: what must hold stands first, nothing is expanded, the frame tells output from noise."""

import os
import re
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.clock import SystemClock
from hub.ssh.argv import (
    CONTROL_PATH_BYTES_MAX,
    HASH_CHARS,
    RuntimeDirTooLong,
    Way,
    check_runtime_dir,
    framed,
    options,
    pasteable,
    ssh_argv,
    unframed,
)
from hub.ssh.client import Client
from hub.ssh.targets import Target, TargetRefused, parse
from tests.hub.ssh.sshd import needs_sshd
from tests.wire.strategies import patiently

WAY = Way(identities=(Path("/keys/hub"),), known_hosts=Path("/state/known_hosts"), runtime_dir=Path("/run/p"))
HOST = Target("203.0.113.5", 22022)


def option(argv: list[str], name: str) -> str:
    values = [word.partition("=")[2] for word in argv if word.startswith(f"{name}=")]
    assert len(values) == 1, name
    return values[0]


def test_what_must_hold_is_given_once_and_before_the_destination() -> None:
    argv = ssh_argv(WAY, HOST, "true")
    assert argv[0] == "ssh"
    for name in ("ForwardAgent", "ForwardX11", "PermitLocalCommand", "UpdateHostKeys", "Tunnel"):
        assert option(argv, name) == "no"
    for name in ("BatchMode", "ClearAllForwardings", "StrictHostKeyChecking", "IdentitiesOnly"):
        assert option(argv, name) == "yes"
    assert argv[argv.index("-F") + 1] == "none"
    assert argv[-3:] == ["--", "203.0.113.5", "true"]


@needs_sshd
def test_ssh_itself_reads_the_command_line_as_meant(tmp_path: Path) -> None:
    """Even with an operator's file that wants everything we forbid."""
    config = tmp_path / "config with a blank"
    config.write_text(
        "Host *\n  ForwardAgent yes\n  ForwardX11 yes\n  LocalForward 127.0.0.1:1 127.0.0.1:2\n"
        "  PermitLocalCommand yes\n  LocalCommand touch /nowhere\n  StrictHostKeyChecking no\n  BatchMode no\n"
        "  User somebody\n  Port 7\n  UpdateHostKeys yes\n  Compression yes\n"
    )
    way = Way(
        identities=(tmp_path / "key %h",), known_hosts=tmp_path / "known %r", runtime_dir=tmp_path, config_file=config
    )
    argv = ["ssh", "-G", *options(way, HOST), "--", HOST.host]
    said = dict(
        line.split(" ", 1)
        for line in subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
        if " " in line
    )
    assert (said["user"], said["port"], said["hostname"]) == ("root", "22022", "203.0.113.5")
    assert {said[name] for name in ("forwardagent", "forwardx11", "permitlocalcommand", "tunnel")} <= {"no", "false"}
    assert said["updatehostkeys"] in {"no", "false"}
    assert said["stricthostkeychecking"] in {"yes", "true"}
    assert said["batchmode"] == "yes"
    assert said["clearallforwardings"] == "yes"
    assert said["identityfile"] == str(tmp_path / "key %%h")
    assert "known" in said["userknownhostsfile"]
    assert said["compression"] == "yes", "the operator's file counts where nothing else is said"


def test_jumps_and_an_agent_are_named_and_nothing_else() -> None:
    jumped = ssh_argv(WAY, Target("h", jumps=(Target("j1", 1, "a"), Target("2001:db8::1"))))
    outer = shlex.split(option(jumped, "ProxyCommand"))
    assert outer[-4:] == ["-W", "h:22", "--", "2001:db8::1"]
    assert option(outer, "StrictHostKeyChecking") == "yes"
    inner = shlex.split(option(outer, "ProxyCommand").replace("%%", "%"))
    assert inner[-4:] == ["-W", "[2001:db8::1]:22", "--", "j1"]
    assert inner[inner.index("-l") + 1] == "a"
    with_agent = Way(**{**_fields(WAY), "agent_socket": Path("/run/agent")})  # type: ignore[arg-type]  # a test's own
    assert option(ssh_argv(with_agent, HOST), "IdentityAgent") == "/run/agent"
    assert option(ssh_argv(WAY, HOST), "IdentityAgent") == "none"


def _fields(way: Way) -> dict[str, object]:
    return {name: getattr(way, name) for name in Way.__struct_fields__}


def test_a_folder_whose_sockets_would_not_fit_is_refused() -> None:
    room = CONTROL_PATH_BYTES_MAX - HASH_CHARS - 1
    check_runtime_dir(Path("/" + "r" * (room - 1)))
    with pytest.raises(RuntimeDirTooLong, match="shorter"):
        check_runtime_dir(Path("/" + "r" * room))


def test_what_is_shown_can_be_pasted() -> None:
    argv = ssh_argv(WAY, HOST, framed("echo 'it'\"s\" $HOME; exit 3", "ab" * 8))
    assert shlex.split(pasteable(argv)) == argv


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
@pytest.mark.parametrize(
    ("script", "code", "output"),
    [
        ("printf hello", 0, b"hello"),
        ("echo hello", 0, b"hello\n"),
        ("exit 255", 255, b""),
        ("cd /nowhere && echo there", None, b""),
        ("printf 'a\\0b'", 0, b"a\0b"),
        ("echo '\"quoted\" $x `y`'; false", 1, b'"quoted" $x `y`\n'),
        ("echo one\necho two # a comment", 0, b"one\ntwo\n"),
        ("printf '%s' __provewire_end_0000000000000000; echo ' 7'", 0, b"__provewire_end_0000000000000000 7\n"),
        ("exec echo gone", 0, b"gone\n"),
        ("kill -9 $$", None, b""),
    ],
)
def test_a_framed_script_tells_its_output_and_its_own_exit_code(
    shell: str, script: str, code: int | None, output: bytes
) -> None:
    nonce = "0123456789abcdef"
    noisy = f"echo 'welcome to the node'; {framed(script, nonce)}"
    ran = subprocess.run([shell, "-c", noisy], capture_output=True, check=False)
    remote = unframed(ran.stdout, nonce)
    assert remote.began
    assert remote.before == b"welcome to the node\n"
    if script.startswith("kill"):
        assert not remote.ended
        assert ran.returncode != 0
    else:
        assert remote.ended
        assert remote.output == output
        assert remote.exit_code == code if code is not None else remote.exit_code != 0


@patiently(200)
@given(st.binary(max_size=200), st.integers(0, 255))
def test_any_output_is_taken_out_of_its_frame_whole(output: bytes, code: int) -> None:
    nonce = "a" * 16
    stdout = b"motd\n__provewire_begin_%s\n%s\n__provewire_end_%s %d\n" % (nonce.encode(), output, nonce.encode(), code)
    remote = unframed(stdout, nonce)
    assert (remote.output, remote.exit_code, remote.before) == (output, code, b"motd\n")


def test_without_its_end_the_output_is_what_came() -> None:
    assert unframed(b"login: ", "a" * 16).before == b"login: "
    cut = unframed(b"__provewire_begin_%s\nhalf" % (b"a" * 16), "a" * 16)
    assert (cut.began, cut.ended, cut.output) == (True, False, b"half")


RECORDER = """#!/bin/sh
for word in "$@"; do printf '%s\\0' "$word" >> "{out}"; done
printf '\\n' >> "{out}"
"""


async def test_no_target_reaches_ssh_as_an_option(tmp_path: Path) -> None:
    """A recorder in place of ssh sees exactly the words that were built, whatever the target's text was."""
    out = tmp_path / "argv"
    recorder = tmp_path / "ssh"
    recorder.write_text(RECORDER.format(out=out))
    recorder.chmod(recorder.stat().st_mode | stat.S_IXUSR)
    client = Client(Way(**{**_fields(WAY), "ssh": str(recorder), "multiplexed": False}), SystemClock(), os.environ)  # type: ignore[arg-type]  # a test's own
    texts = ["root@h", "ssh -p 7 a@b", "-oProxyCommand=x", "$(touch x)@h", "root@h;id", "ssh://u@[::1]:2200", "a\nb"]
    taken = []
    for text in texts:
        try:
            found = parse(text)
        except TargetRefused:
            continue
        taken.append(found)
        await client.run(found, "true", deadline_s=10.0)
    # The script itself has newlines: a call's words end with the last zero byte before the newline of the recorder.
    calls = re.split(rb"\0\n(?=-T\0)", out.read_bytes().removesuffix(b"\0\n"))
    assert len(calls) == len(taken)
    for call, found in zip(calls, taken, strict=True):
        words = call.split(b"\0")
        assert words[-3:-1] == [b"--", found.host.encode()]
        assert words[words.index(b"-l") + 1] == found.user.encode()
