"""What the web side of the hub may ask of its core, and the keys under which the application holds it all.

The parts are made and wired in `hub.app`; handlers find them with ``request.app[STORE]`` and so on.
"""

from collections.abc import Sequence
from typing import Protocol

from aiohttp import web
from msgspec import Struct

from hub.alerts.desk import AlertDesk
from hub.artifacts import Artifacts
from hub.bus import Bus
from hub.clock import Clock
from hub.config import Config
from hub.keys import Keys
from hub.quotas import Quotas
from hub.registry import Registry
from hub.retention import Retention
from hub.rolling import Roller
from hub.ssh.desk import SshDesk
from hub.ssh.help import Help
from hub.ssh.watch import Watch
from hub.store.base import Store
from hub.store.records import Hub, Job
from hub.traffic import Traffic
from hub.verify import Verifier
from wire.frames import KeyInstalled
from wire.jobs import Input
from wire.reasons import Reason


class Lease(Struct, frozen=True):
    """A live attempt: who holds it and what it may fetch."""

    job_id: str
    attempt: int
    agent_id: str
    inputs: Sequence[Input]


class Keepers(Struct, frozen=True):
    """Who decides how much is taken in and kept; for the metrics."""

    quotas: Quotas
    roller: Roller
    retention: Retention


class TooManyJobs(Exception):
    """The queue is full; nothing was stored. Answer 503 and let the client come again."""


class JobDesk(Protocol):
    """Where jobs are handed in, called off and asked about."""

    async def submit(self, job: Job) -> tuple[Job, bool]:
        """Persist, then queue; False with the stored job for a known idempotency key.

        Raises:
            hub.store.base.IdempotencyConflict: the key was used for another request.
            TooManyJobs: the queue is full.
        """

    async def cancel(self, job_id: str) -> Job | None:
        """Cancel, and stop the attempt that runs. An ended job stays as it is; None for an unknown one."""

    def lease(self, job_id: str, attempt: int) -> Lease | None:
        """The live attempt of that number, from memory."""

    def holder(self, job_id: str) -> str | None:
        """The agent that holds the job's lease now, from memory."""

    def why_waits(self, job: Job) -> str:
        """Why a queued job waits, in one sentence; empty where nothing keeps it."""


class SessionDesk(Protocol):
    """Where sessions of agents can be ended."""

    traffic: Traffic
    """What goes over their sockets."""

    @property
    def unauthenticated(self) -> int:
        """Sockets that have not finished the handshake."""

    async def end(self, agent_id: str, reason: Reason, detail: str) -> bool:
        """Say Bye, close the socket and wait until its queued writes are committed; False if none was open."""

    async def install_key(self, agent_id: str, *, user: str, public_key: str, within_s: float) -> KeyInstalled | None:
        """Have an agent let the hub's SSH key in; None: it has no session, or does not answer in time."""

    def count(self) -> int:
        """Open sessions."""


CONFIG = web.AppKey("CONFIG", Config)
CLOCK: web.AppKey[Clock] = web.AppKey("CLOCK", Clock)
HUB = web.AppKey("HUB", Hub)
KEYS = web.AppKey("KEYS", Keys)
STORE: web.AppKey[Store] = web.AppKey("STORE", Store)
REGISTRY = web.AppKey("REGISTRY", Registry)
BUS = web.AppKey("BUS", Bus)
JOBS: web.AppKey[JobDesk] = web.AppKey("JOBS", JobDesk)
SESSIONS: web.AppKey[SessionDesk] = web.AppKey("SESSIONS", SessionDesk)
ARTIFACTS = web.AppKey("ARTIFACTS", Artifacts)
VERIFIER = web.AppKey("VERIFIER", Verifier)
BASE_URL = web.AppKey("BASE_URL", list[str])
"""One item once the hub listens: its own address, for links and tokens."""
SSH = web.AppKey("SSH", SshDesk)
SSH_WATCH = web.AppKey("SSH_WATCH", Watch)
SSH_HELP = web.AppKey("SSH_HELP", Help)
KEEPERS = web.AppKey("KEEPERS", Keepers)
ALERTS = web.AppKey("ALERTS", AlertDesk)
