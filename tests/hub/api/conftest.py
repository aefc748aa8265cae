"""The real application over a real store, driven in process."""

import asyncio
import hashlib
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient

from hub import ports
from hub.access.records import ApiToken, User
from hub.access.roles import Role
from hub.access.roster import ROSTER, digest
from hub.api.auth import cookie_name, new_secret
from hub.app import Background, make_app
from hub.clock import Clock, SystemClock
from hub.config import Config
from hub.ids import uuid7
from hub.store.records import EnrollToken
from prover import circuits
from tests.hub.rig import SECRET_HASH, FakeClock, RunningHub

CIRCUITS = Path(circuits.__file__).parent
PROOF = (Path(__file__).parents[1] / "vectors" / "merkle8_proof.json").read_bytes()


@dataclass(frozen=True)
class Reply:
    """One answer, read whole."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> Any:
        """The problem's code; the envelope is checked on the way."""
        problem = self.json
        assert self.headers["Content-Type"].startswith("application/problem+json")
        assert set(problem) - {"candidates"} == {"type", "title", "status", "detail", "code"}
        assert problem["status"] == self.status
        return problem["code"]


class Web:
    """The hub and a client that knows the admin token."""

    def __init__(self, hub: RunningHub, client: Any, clock: Clock) -> None:
        self.hub = hub
        self.app = hub.app
        self.client = client
        self.clock = clock

    @property
    def admin(self) -> dict[str, str]:
        token = (self.app[ports.CONFIG].data_dir / "admin-token").read_text().strip()
        return {"Authorization": f"Bearer {token}"}

    @property
    def cookie(self) -> str:
        return cookie_name(self.app)

    @property
    def from_page(self) -> dict[str, str]:
        """What a browser sends along when our own page changes something."""
        return {"Origin": self.app[ports.BASE_URL][0], "X-Provewire": "1"}

    async def person(self, role: Role, name: str = "", password_hash: str = "") -> dict[str, str]:
        """A user who is logged in: what their browser sends."""
        roster, now_ms = self.app[ROSTER], self.clock.time_ms()
        user = User(
            id=uuid7(now_ms),
            name=name or f"{role.value}-{new_secret()[:6]}",
            role=role,
            password_hash=password_hash,
            created_at_ms=now_ms,
            password_at_ms=now_ms,
        )
        await roster.add_user(user)
        secret = new_secret()
        await roster.log_in(roster.new_session(secret, user.id, "127.0.0.1", "a test"))
        return {"Cookie": f"{self.cookie}={secret}", **self.from_page}

    async def program(self, role: Role, *areas: str, expires_at_ms: int | None = None) -> dict[str, str]:
        """A token's header."""
        secret, now_ms = f"pwt.{new_secret()}", self.clock.time_ms()
        token = ApiToken(
            id=uuid7(now_ms),
            name=f"{role.value} program",
            token_hash=digest(secret),
            role=role,
            areas=areas,
            created_by="a test",
            created_at_ms=now_ms,
            expires_at_ms=expires_at_ms,
        )
        await self.app[ROSTER].add_token(token)
        return {"Authorization": f"Bearer {secret}"}

    async def ask(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, stranger: bool = False, **more: Any
    ) -> Reply:
        """One request, as the admin unless as a stranger."""
        sent = {**({} if stranger else self.admin), **(headers or {})}
        async with self.client.request(method, path, headers=sent, allow_redirects=False, **more) as answer:
            return Reply(answer.status, answer.headers, await answer.read())

    async def upload(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        reply = await self.ask("PUT", f"/api/v1/artifacts/{digest}", data=io.BytesIO(data))
        assert reply.status in {200, 201}, reply.body
        return digest

    async def register(self, name: str = "merkle8", *, variant: int = 0) -> dict[str, Any]:
        """Register the bundled key; a ``variant`` of it differs in the record of its contributions only."""
        data = (CIRCUITS / "merkle8.zkey").read_bytes()
        zkey = await self.upload(data[:-1] + bytes([data[-1] ^ variant]))
        reply = await self.ask("POST", "/api/v1/circuits", json={"name": name, "zkey": zkey})
        assert reply.status in {200, 201}, reply.body
        circuit: dict[str, Any] = reply.json
        return circuit

    async def submit(self, circuit: str = "merkle8", **more: Any) -> dict[str, Any]:
        witness = await self.upload((CIRCUITS / "merkle8.wtns").read_bytes())
        reply = await self.ask("POST", "/api/v1/jobs", json={"circuit": circuit, "witness": witness}, **more)
        assert reply.status in {200, 201}, reply.body
        job: dict[str, Any] = reply.json
        return job


Start = Callable[..., Awaitable[Web]]


@pytest.fixture
async def start(aiohttp_client: Any, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts the hub with settings, and with a clock that stands still if asked."""
    started: list[Background] = []

    async def begin(*, still: bool = False, clock: Clock | None = None, **settings: Any) -> Web:
        clock = clock or (FakeClock() if still else SystemClock())
        background = Background(asyncio.Event())
        config = Config(data_dir=tmp_path / "hub", **settings)
        config.data_dir.mkdir(exist_ok=True)
        app = make_app(config, clock, tasks=background, tell_systemd=lambda _text: None)
        client: TestClient[Any, Any] = await aiohttp_client(app)
        app[ports.BASE_URL].append(str(client.make_url("")).rstrip("/"))
        if not await app[ports.STORE].enroll_tokens():
            await app[ports.STORE].add_enroll_token(
                EnrollToken(
                    id="01900000-0000-7000-8000-000000000000",
                    secret_hash=SECRET_HASH,
                    uses_max=1000,
                    expires_at_ms=2**52,
                    created_at_ms=1,
                )
            )
        started.append(background)
        assert client.port is not None
        return Web(RunningHub(app, client.port, asyncio.Event(), background), client, clock)

    yield begin
    for background in started:
        assert background.failure is None, background.failure


@pytest.fixture
async def web(start: Start) -> Web:
    """The hub as it is by default."""
    return await start()
