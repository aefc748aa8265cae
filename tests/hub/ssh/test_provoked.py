"""Causes that want more than a server: an agent that refuses, a killed ssh, no descriptor left, and others."""

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from hub.ssh.cause import Cause
from hub.ssh.targets import Target
from tests.hub.ssh.sshd import DEADLINE_S, HubSide, Sshd, make_key, needs_sshd, running

pytestmark = needs_sshd

SSH = str(shutil.which("ssh"))


@pytest.fixture
def hub() -> Iterator[HubSide]:
    # Short, for control sockets lie in it; and open to the one test whose ssh is another user.
    with tempfile.TemporaryDirectory(prefix="pw-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield HubSide(Path(folder), multiplexed=False)


def wrapped(hub: HubSide, script: str) -> str:
    """A program in place of ssh that does this with its words."""
    path = hub.folder / "wrapped"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(path)


@contextmanager
def ssh_agent(folder: Path, *keys: Path) -> Iterator[Path]:
    """An ssh agent that asks for every use of these keys, and nobody is there to answer."""
    socket = folder / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL) as agent:
        try:
            env = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
            for _ in range(500):
                if socket.is_socket():
                    break
                subprocess.run(["sleep", "0.02"], check=True)
            for key in keys:
                subprocess.run(["ssh-add", "-q", "-c", str(key)], env=env, check=True, capture_output=True)
            yield socket
        finally:
            agent.kill()


async def test_an_agent_that_refuses(hub: HubSide, tmp_path: Path) -> None:
    key = make_key(hub.folder / "held")
    async with running(tmp_path / "sshd") as server:
        hub.knows(server)
        server.authorize(key)
        with ssh_agent(hub.folder, key) as socket:
            key.unlink()  # only the agent has it now
            client = hub.with_way(identities=(key,), agent_socket=socket)
            (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is Cause.AGENT_REFUSED, found.stderr


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
async def test_a_key_of_somebody_elses(hub: HubSide, tmp_path: Path) -> None:
    hub.known_hosts.chmod(0o644)
    nobody = wrapped(hub, f'exec setpriv --reuid nobody --clear-groups {SSH} "$@"')
    async with running(tmp_path / "sshd") as server:
        hub.knows(server)
        server.authorize(hub.identity)
        (found,) = await hub.with_way(ssh=nobody).run(server.target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is Cause.KEY_UNREADABLE, found.stderr


async def test_an_option_this_ssh_does_not_know(hub: HubSide) -> None:
    later = wrapped(hub, f'exec {SSH} -o SomeOptionOfALaterTime=yes "$@"')
    (found,) = await hub.with_way(ssh=later).run(Sshd(hub.folder / "sshd").target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is Cause.UNSUPPORTED_OPTION, found.stderr


async def test_a_server_that_takes_the_key_and_no_session(hub: HubSide, tmp_path: Path) -> None:
    async with running(tmp_path / "sshd", "MaxSessions 0") as server:
        hub.knows(server)
        server.authorize(hub.identity)
        found = await hub.run(server)
    assert found.diagnosis.cause is Cause.SESSION_REFUSED, found.stderr


async def test_a_master_that_takes_no_more_and_a_fresh_login_that_fails(hub: HubSide, tmp_path: Path) -> None:
    client = hub.with_way(multiplexed=True)
    async with running(tmp_path / "sshd", "MaxSessions 1") as server:
        hub.knows(server)
        server.authorize(hub.identity)
        holding = asyncio.create_task(client.run(server.target, "echo held; sleep 60", deadline_s=60.0))
        async with asyncio.timeout(DEADLINE_S):
            while "Starting session" not in server.log.read_text("utf-8", "replace"):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
        server.authorized_keys.write_text("")
        (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await client.end_master(server.target, force=True)
    assert found.diagnosis.cause is Cause.MUX_REFUSED, found.stderr
    assert "Session open refused by peer" in found.diagnosis.evidence
    assert b"Permission denied (publickey)" in found.stderr


async def test_a_key_for_which_no_signature_is_allowed(hub: HubSide, tmp_path: Path) -> None:
    """A private key alone is signed with unasked; what the operator's configuration allows does not fit it."""
    key = make_key(hub.folder / "old", "-t", "rsa", "-b", "2048", "-m", "PEM")
    config = hub.folder / "config"
    config.write_text("PubkeyAcceptedAlgorithms ssh-ed25519\n")
    async with running(tmp_path / "sshd") as server:
        hub.knows(server)
        server.authorize(key)
        key.with_suffix(".pub").unlink()
        client = hub.with_way(identities=(key,), config_file=config)
        (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is Cause.SIGNATURE_ALGORITHM, found.stderr
    assert found.diagnosis.evidence == "sign_and_send_pubkey: no mutual signature supported"


async def test_keys_too_short_for_what_is_asked_of_them(hub: HubSide, tmp_path: Path) -> None:
    own = make_key(hub.folder / "short", "-t", "rsa", "-b", "1024")
    hosts = make_key(hub.folder / "hosts", "-t", "rsa", "-b", "1024")
    config = hub.folder / "config"
    config.write_text("RequiredRSASize 2048\n")
    async with running(tmp_path / "sshd") as server:
        hub.knows(server)
        server.authorize(own)
        client = hub.with_way(identities=(own,), config_file=config)
        (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is Cause.SIGNATURE_ALGORITHM, found.stderr
    async with running(tmp_path / "rsa", f"HostKey {hosts}") as server:
        kind, body, *_ = hosts.with_suffix(".pub").read_text().split()
        hub.known_hosts.write_text(f"{server.target.known_host} {kind} {body}\n")
        (found,) = await hub.with_way(config_file=config).run(server.target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is Cause.NEGOTIATION_HOST_KEY, found.stderr


def key_exchange(*lists: str) -> bytes:
    """The packet by which a server says what it can do (RFC 4253, section 7.1)."""
    body = bytes([20]) + bytes(16)
    body += b"".join(len(names).to_bytes(4, "big") + names.encode() for names in lists) + bytes(5)
    padding = 8 - (len(body) + 5) % 8 + 8
    return (len(body) + padding + 1).to_bytes(4, "big") + bytes([padding]) + body + bytes(padding)


async def test_a_server_that_only_compresses_in_a_way_nobody_knows(hub: HubSide) -> None:
    """No sshd can be told to do so; a real client hears it from one that speaks so far only."""
    can = ("curve25519-sha256", "ssh-ed25519", *["aes128-ctr"] * 2, *["hmac-sha2-256"] * 2, *["lz4"] * 2, "", "")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-Compressing\r\n" + key_exchange(*can))
        await reader.read()  # to the end of the client
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        found = await hub.run(Target("127.0.0.1", server.sockets[0].getsockname()[1]))
    assert found.diagnosis.cause is Cause.NEGOTIATION_OTHER, found.stderr
    assert found.diagnosis.evidence.endswith("no matching compression method found. Their offer: lz4")


async def test_an_answer_whose_end_is_cut_off(hub: HubSide, tmp_path: Path) -> None:
    forced = 'ForceCommand sh -c "$SSH_ORIGINAL_COMMAND" | head -n 2'
    async with running(tmp_path / "sshd", forced) as server:
        hub.knows(server)
        server.authorize(hub.identity)
        found = await hub.run(server, "echo one; echo two")
    assert found.diagnosis.cause is Cause.OUTPUT_CUT
    assert found.output == b"one\n"


async def test_ssh_itself_is_killed(hub: HubSide, tmp_path: Path) -> None:
    async with running(tmp_path / "sshd") as server:
        hub.knows(server)
        server.authorize(hub.identity)
        attempt = asyncio.create_task(hub.run(server, "sleep 60", deadline_s=60.0))
        async with asyncio.timeout(DEADLINE_S):
            while not (ours := _sshs(server)) or not _logged_in(server):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
        for process in ours:
            process.send_signal(signal.SIGKILL)
        found = await attempt
    assert found.diagnosis.cause is Cause.SSH_KILLED


def _sshs(server: Sshd) -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            if str(server.port) in child.cmdline() and child.name() == "ssh":
                found.append(child)
    return found


def _logged_in(server: Sshd) -> bool:
    return "Accepted publickey" in server.log.read_text("utf-8", "replace")


async def test_no_descriptor_is_left(hub: HubSide, tmp_path: Path) -> None:
    async with running(tmp_path / "sshd") as server:
        hub.knows(server)
        target = server.target
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 200), hard))
        held: list[int] = []
        try:
            with suppress(OSError):
                while True:
                    held.append(os.open(hub.folder, os.O_RDONLY))
            found = await hub.run(target)
        finally:
            for descriptor in held:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found.diagnosis.cause is Cause.OUT_OF_DESCRIPTORS


async def test_words_nobody_knows_are_shown_whole(hub: HubSide) -> None:
    said = "the moon is in the seventh house"
    strange = wrapped(hub, f"echo '{said}' >&2; exit 255")
    (found,) = await hub.with_way(ssh=strange).run(Sshd(hub.folder / "sshd").target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is Cause.UNRECOGNISED
    assert found.stderr.decode().strip() == said
    assert said in found.diagnosis.evidence
