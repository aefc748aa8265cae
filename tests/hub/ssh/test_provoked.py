"""Causes that want more than a server: an agent that refuses, a killed ssh, no descriptor left, and others."""

import asyncio
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
    return [
        child for child in psutil.Process().children() if str(server.port) in child.cmdline() and child.name() == "ssh"
    ]


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
