"""The whole agent against a small hub: enrolment, a real proof by a real worker, and what an operator gets wrong."""

import asyncio
import base64
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import web
from msgspec import UNSET

from agent import config as settings
from agent.agent import Agent
from agent.clock import Clock, SystemClock
from agent.config import Config
from agent.enroll import ANSWER_CONTEXT
from agent.errors import ConfigFault, StatusUnreachable
from agent.identity import Enrolled, load_enrolled, load_key, save_enrolled, verify
from agent.local_ask import ask, ask_frame
from prover.circuits import WITNESS, ZKEY
from prover.worker import lock as worker_lock
from tests.agent.samples import JOB, assignment
from tests.agent.small_hub import HUB_ID, SmallHub, running_hub
from tests.agent.virtual_time import VirtualClock, eventually
from wire.errors import RemoteProtocolError
from wire.frames import JobStarted, JobSucceeded, Stream
from wire.jobs import Input
from wire.signed_status import read
from wire.status import SshHint

AGENT_ID = "01890a5d-ac96-774b-bcce-b302099a0001"
ROOT = Path(__file__).parents[2]


@pytest.fixture
async def hub() -> AsyncIterator[SmallHub]:
    async with running_hub() as running:
        yield running


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "d"
    yield folder
    pid = worker_lock.owner(folder / "workers" / "host")
    if pid is not None:
        psutil.Process(pid).kill()


def token_file(folder: Path, hub: SmallHub, secret: str = "s3cret") -> Path:  # noqa: S107 - a test's
    body = json.dumps({"u": hub.url, "f": hub.fingerprint, "s": secret}).encode()
    path = folder / "token"
    path.write_text("pw1." + base64.urlsafe_b64encode(body).decode().rstrip("=") + "\n")
    return path


def enrolling(hub: SmallHub, good: str = "s3cret") -> list[str]:
    """The hub enrols who has the secret; the enrolment ids it saw."""
    seen: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        body = await request.json()
        seen.append(body["enrollment_id"])
        if body["secret"] != good:
            return web.json_response({"code": "token_used_up", "detail": "it was used already"}, status=401)
        public_key = bytes.fromhex(body["public_key"])
        hub.agents[AGENT_ID] = public_key
        signature = hub.key.sign(ANSWER_CONTEXT + body["enrollment_id"].encode() + AGENT_ID.encode() + public_key)
        answer = {
            "agent_id": AGENT_ID,
            "hub_id": HUB_ID,
            "hub_key": hub.public_key.hex(),
            "signature": signature.hex(),
        }
        return web.json_response(answer, status=201)

    hub.enroll_handler = handle
    return seen


def enrolled_at(hub: SmallHub, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    hub.agents[AGENT_ID] = load_key(folder).public
    save_enrolled(folder, Enrolled(agent_id=AGENT_ID, hub_id=HUB_ID, hub_key=hub.public_key.hex(), hub_url=hub.url))


def configured(folder: Path, **options: Any) -> Config:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PROVEWIRE_LOG": "json"}
    return settings.load(environ, data_dir=str(folder), name="node-a", local="off", device="host", **options)


@asynccontextmanager
async def running(config: Config, clock: Clock | None = None) -> AsyncIterator[asyncio.Event]:
    """An agent on this loop; it is told to stop at the end and must do so by itself."""
    stop = asyncio.Event()
    agent = Agent(config, clock=clock or SystemClock(), rng=random.Random(9))
    task = asyncio.create_task(agent.run(stop))
    await eventually(lambda: config.socket_path.exists() or task.done(), "the local view")
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(30):
            await task


async def status(folder: Path) -> Any:
    return json.loads(await ask(folder / "agent.sock"))


# --- the whole way --------------------------------------------------------------------------------------------------


async def test_a_hub_that_asks_by_another_way_gets_one_full_status_signed_for_its_nonce(
    hub: SmallHub, data: Path
) -> None:
    enrolled_at(hub, data)
    nonce = bytes(range(16))
    async with running(configured(data, observe=True, ssh_address="203.0.113.5:22022", ssh_user="prover")):
        await hub.opened()
        await eventually(lambda: any(said.ssh is not UNSET for _, said in hub.statuses), "what it says of its sshd")
        text = await ask_frame(data / "agent.sock", nonce.hex())
    found = read(text, nonce=nonce, agent_id=AGENT_ID, agent_key=load_key(data).public, verify=verify)
    assert (found.epoch, found.boot_id) == (hub.hellos[0].epoch, hub.hellos[0].boot_id)
    assert found.status.hostname is not UNSET
    assert isinstance(found.status.ssh, SshHint)
    assert (found.status.ssh.address, found.status.ssh.port, found.status.ssh.user) == ("203.0.113.5", 22022, "prover")
    with pytest.raises(RemoteProtocolError):
        read(text, nonce=nonce[::-1], agent_id=AGENT_ID, agent_key=load_key(data).public, verify=verify)


@pytest.mark.compiler
async def test_from_token_to_proof(hub: SmallHub, data: Path, tmp_path: Path) -> None:
    seen = enrolling(hub)
    inputs = []
    for role, path in (("zkey", ZKEY), ("wtns", WITNESS)):
        content = path.read_bytes()
        inputs.append(Input(role=role, sha256=path_sha256(content), bytes_=len(content)))
        hub.artifacts[inputs[-1].sha256] = content
    async with running(configured(data, token_file=str(token_file(tmp_path, hub)))):
        await hub.opened()
        shown = await status(data)
        assert (shown["agent_id"], shown["name"], shown["hub"]["state"]) == (AGENT_ID, "node-a", "open")
        assert shown["healthy"]
        hub.assign(assignment(inputs=inputs))
        await eventually(
            lambda: any(isinstance(body, JobSucceeded) for body in hub.bodies(Stream.JOBS)), "the proof", deadline_s=90
        )
        (worker,) = (await status(data))["workers"]
    started, succeeded = hub.bodies(Stream.JOBS)
    assert isinstance(started, JobStarted)
    assert (succeeded.job, {output.role for output in succeeded.outputs}) == (JOB, {"proof", "public"})
    assert seen == [seen[0]]
    assert psutil.pid_exists(worker["pid"])  # the agent has stopped, its worker has not
    assert hub.ended[-1] == (0, "the agent is stopping", True)
    saved = load_enrolled(data)
    assert saved is not None
    assert (saved.agent_id, saved.generation) == (AGENT_ID, 1)
    with pytest.raises(StatusUnreachable):
        await ask(data / "agent.sock")
    # Once more, with the token that is used up: it is not needed and not sent.
    async with running(configured(data, token_file=str(token_file(tmp_path, hub, "other")))):
        await hub.opened(2)
        await eventually(lambda: any(body.kind == "worker.adopted" for body in hub.bodies()), "the worker's adoption")
        assert (await status(data))["workers"][0]["pid"] == worker["pid"]
    assert len(seen) == 1


def path_sha256(content: bytes) -> str:
    import hashlib  # noqa: PLC0415 - only here

    return hashlib.sha256(content).hexdigest()


async def test_an_observing_agent_has_no_worker_and_takes_no_job(hub: SmallHub, data: Path) -> None:
    enrolled_at(hub, data)
    async with running(configured(data, observe=True)):
        await hub.opened()
        assert hub.hellos[0].capabilities == ["observe"]
        shown = await status(data)
        assert (shown["workers"], shown["observe"]) == ([], True)
        hub.assign(assignment())
        await eventually(lambda: hub.replies, "the refusal")
        assert not hub.replies[0].accepted
    assert not (data / "workers").exists()


async def test_a_damaged_outbox_is_reported_to_the_hub(hub: SmallHub, data: Path) -> None:
    enrolled_at(hub, data)
    (data / "outbox.sqlite").write_bytes(b"torn" * 1000)
    async with running(configured(data, observe=True)):
        await hub.opened()
        await eventually(lambda: any(body.kind == "outbox.damaged" for body in hub.bodies()), "the report")
    assert (data / "outbox.sqlite.damaged-1").exists()


# --- enrolment that heals -------------------------------------------------------------------------------------------


async def test_a_used_token_is_retried_slowly_and_a_fresh_one_picked_up(
    hub: SmallHub, data: Path, tmp_path: Path
) -> None:
    seen = enrolling(hub)
    clock = VirtualClock()
    path = token_file(tmp_path, hub, "used up")
    async with running(configured(data, observe=True, token_file=str(path)), clock):
        await eventually(lambda: seen, "the first request")
        await eventually_state(data, "refused")
        shown = (await status(data))["hub"]
        assert shown["last_reason"]["name"] == "enrol_token_used_up"
        assert "it was used already" in shown["last_reason"]["detail"]
        assert shown["next_attempt_in_s"] >= 10.0
        path.write_text("no token at all")
        await clock.advance(100.0)
        await eventually(lambda: len(seen) >= 2, "another request, with what it knew")
        token_file(tmp_path, hub)
        await eventually(lambda: hub.hellos, "the session", clock=clock, step_s=10.0)
    assert seen[0] == seen[1] != seen[-1]


async def eventually_state(folder: Path, state: str) -> None:
    shown = ""
    async with asyncio.timeout(20):
        while shown != state:
            shown = (await status(folder))["hub"]["state"]


async def test_a_hub_that_is_away_is_waited_for(hub: SmallHub, data: Path, tmp_path: Path) -> None:
    seen = enrolling(hub)
    await hub.stop()
    clock = VirtualClock()
    async with running(configured(data, observe=True, token_file=str(token_file(tmp_path, hub))), clock):
        await eventually_state(data, "waiting")
        await hub.start()
        await eventually(lambda: seen, "the enrolment", clock=clock, step_s=5.0)
        await eventually(lambda: hub.hellos, "the session")


# --- what an operator gets wrong: exit 64, one sentence -------------------------------------------------------------


def refused(folder: Path, *options: str) -> str:
    """Run the command; it must exit with 64 and one sentence, which is returned."""
    argv = [sys.executable, "-m", "cli.main", "agent", "--data-dir", str(folder), "--local", "off", *options]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 64, ended.stderr
    assert "Traceback" not in ended.stderr
    sentences = [line for line in ended.stderr.splitlines() if line.startswith("provewire: ")]
    assert len(sentences) == 1
    return sentences[0]


def test_no_identity_and_no_token(data: Path) -> None:
    assert "is not enrolled" in refused(data, "--hub", "http://127.0.0.1:1")


def test_an_unusable_token_file(data: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("nonsense")
    assert "holds no enrolment token" in refused(data, "--token-file", str(tmp_path / "token"))
    assert "cannot be read" in refused(data, "--token-file", str(tmp_path / "none"))


def test_a_hub_without_tls_off_this_machine(data: Path) -> None:
    assert "--insecure" in refused(data, "--hub", "http://hub.example.org")


def test_a_data_dir_too_long_for_a_socket(tmp_path: Path) -> None:
    assert "shorter --data-dir" in refused(tmp_path / ("d" * 120))


def test_a_truncated_identity(data: Path) -> None:
    data.mkdir()
    (data / "agent.json").write_text('{"agent_id": "018')
    assert "agent.json is damaged" in refused(data, "--hub", "http://127.0.0.1:1")


async def test_a_second_agent_on_the_same_data_dir(hub: SmallHub, data: Path) -> None:
    enrolled_at(hub, data)
    async with running(configured(data, observe=True)):
        with pytest.raises(ConfigFault, match="another agent"):
            await Agent(configured(data, observe=True), clock=SystemClock(), rng=random.Random(1)).run(asyncio.Event())
        assert (await status(data))["name"] == "node-a"


async def test_a_part_that_fails_ends_the_agent_with_its_error(
    hub: SmallHub, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug must not leave half an agent: the process ends, and its supervisor starts a whole one."""
    enrolled_at(hub, data)

    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("agent.agent.read_host", broken)
    with pytest.raises(ZeroDivisionError):
        await Agent(configured(data, observe=True), clock=SystemClock(), rng=random.Random(1)).run(asyncio.Event())
