"""The store over any SQL database: one writer, a few readers. What differs by database is how the engines are made.

Each method hands a statement function of `sql_fleet` or `sql_work` to the writer's thread or to a reader's.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from hub.rollups import TIERS, Tier
from hub.ssh.reach import Reach
from hub.ssh.record import Record
from hub.store import sql_fleet, sql_history, sql_like, sql_logs, sql_retention, sql_ssh, sql_work
from hub.store.base import (
    HISTORY_ROWS_MAX,
    PAGE_MAX,
    Applies,
    IngestResult,
    Listed,
    Step,
    StoreClosed,
    StoreStats,
    StoreUnavailable,
)
from hub.store.log_records import LogFilter, LogPage
from hub.store.records import (
    Agent,
    Artifact,
    Circuit,
    EnrollRefusal,
    EnrollToken,
    HistoryRow,
    Hub,
    HubEvent,
    Job,
    JobPicture,
    SessionRow,
    Source,
    StatusNote,
    StoredEvent,
    StreamHead,
    Usage,
    Volume,
)
from hub.store.sql_access import SqlAccess
from hub.store.sql_alerts import SqlAlerts
from hub.store.sql_intake import Batch, Intake, nothing_to_apply
from hub.store.sql_samples import SampledAt
from hub.store.writer import QUEUE_MAX, Writer, complaint
from wire.frames import Event, Stream
from wire.jobs import JobState

READERS = 2
"""Threads that read; more would only queue at the disk."""

Result = TypeVar("Result")


class Space(Protocol):
    """The room a database takes, each kind in its own way."""

    def measure(self, connection: Connection) -> tuple[int, int]:
        """Bytes of the database, and of these what is free in it."""

    def reclaim(self, connection: Connection, bytes_max: int) -> int:
        """Hand at most so many free bytes back to the file system; how many."""


class SqlStore:
    """`hub.store.base.Store` by SQL; its docstrings hold here. Owns both engines from the moment it is made."""

    def __init__(self, writing: Engine, reading: Engine, space: Space) -> None:
        self._writing = writing
        self._reading = reading
        self._space = space
        self._connection = writing.connect()
        self.intake = Intake()
        self._take = self.intake.take  # one object, so that the writer sees that operations are of one kind
        self.writer = Writer(self._connection, self.intake.forget)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._closed = False
        self.access = SqlAccess(self.writer.submit, self._read)
        self.alerts = SqlAlerts(self.writer.submit, self._read)

    async def close(self) -> None:
        """Commit what is queued, then let go of the database."""
        if self._closed:
            return
        self._closed = True
        await self.writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        self._connection.close()
        self._writing.dispose()
        self._reading.dispose()

    async def _read(self, query: Callable[[Connection], Result]) -> Result:
        if self._closed:
            raise StoreClosed("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._query, query)

    def _query(self, query: Callable[[Connection], Result]) -> Result:
        try:
            with self._reading.begin() as connection:
                return query(connection)
        except SQLAlchemyError as error:
            raise StoreUnavailable(f"the store could not read: {complaint(error)}") from error

    def stats(self) -> StoreStats:
        """How the writer fares."""
        return StoreStats(
            commits=self.writer.commits,
            operations=self.writer.operations,
            commit_s_total=self.writer.commit_s_total,
            waiting=self.writer.waiting,
            waiting_max=QUEUE_MAX,
            samples_late=self.intake.samples.late_total,
            sources_refused=self.intake.samples.sources_refused_total,
        )

    async def like(self, listed: Listed, beginning: str, *, limit: int) -> list[tuple[str, str]]:
        """Ids that begin so."""
        return await self._read(lambda c: sql_like.like(c, listed, beginning, limit))

    # --- the hub and its sessions

    async def begin_generation(self, now_ms: int) -> Hub:
        """Count this start."""
        return await self.writer.submit(lambda c: sql_fleet.begin_generation(c, now_ms))

    async def open_session(self, session: SessionRow, agent: Agent) -> None:
        """Note a session."""
        await self.writer.submit(lambda c: sql_fleet.open_session(c, session, agent))

    async def close_session(self, session_id: str, now_ms: int, reason_code: int, detail: str) -> None:
        """Note a session's end."""
        await self.writer.submit(lambda c: sql_fleet.close_session(c, session_id, now_ms, reason_code, detail))

    async def refused_session(self, session: SessionRow) -> None:
        """Note a newcomer that was refused."""
        await self.writer.submit(lambda c: sql_fleet.refused_session(c, session))

    async def sessions(self, agent_id: str, *, before: str = "", limit: int = PAGE_MAX) -> list[SessionRow]:
        """An agent's sessions."""
        return await self._read(lambda c: sql_fleet.sessions(c, agent_id, before, limit))

    async def note_reason(self, agent_id: str, now_ms: int, reason_code: int, detail: str) -> None:
        """Note the reason of a refusal."""
        await self.writer.submit(lambda c: sql_fleet.note_reason(c, agent_id, now_ms, reason_code, detail))

    async def note_status(self, notes: Sequence[StatusNote]) -> None:
        """Write down when agents were last heard."""
        await self.writer.submit(lambda c: sql_fleet.note_status(c, notes))

    # --- agents and enrolment

    async def agent(self, agent_id: str) -> Agent | None:
        """One agent."""
        return await self._read(lambda c: sql_fleet.agent(c, agent_id))

    async def agents(self, *, after: str = "", limit: int = PAGE_MAX) -> list[Agent]:
        """Agents by id."""
        return await self._read(lambda c: sql_fleet.agents(c, after, limit))

    async def revoke_agent(self, agent_id: str, now_ms: int) -> Agent | None:
        """Revoke an agent."""
        return await self.writer.submit(lambda c: sql_fleet.revoke_agent(c, agent_id, now_ms))

    async def add_enroll_token(self, token: EnrollToken) -> None:
        """Store a new token."""
        await self.writer.submit(lambda c: sql_fleet.add_enroll_token(c, token))

    async def enroll_token(self, token_id: str) -> EnrollToken | None:
        """One token."""
        return await self._read(lambda c: sql_fleet.enroll_token(c, token_id))

    async def enroll_tokens(self, *, after: str = "", limit: int = PAGE_MAX) -> list[EnrollToken]:
        """Tokens by id."""
        return await self._read(lambda c: sql_fleet.enroll_tokens(c, after, limit))

    async def revoke_enroll_token(self, token_id: str, now_ms: int) -> EnrollToken | None:
        """Revoke a token."""
        return await self.writer.submit(lambda c: sql_fleet.revoke_enroll_token(c, token_id, now_ms))

    async def enroll(
        self, *, secret_hash: bytes, enrollment_id: str, public_key: bytes, name: str, agent_id: str, now_ms: int
    ) -> Agent | EnrollRefusal:
        """Use a token up once and make the agent."""
        return await self.writer.submit(
            lambda c: sql_fleet.enroll(
                c,
                secret_hash=secret_hash,
                enrollment_id=enrollment_id,
                public_key=public_key,
                name=name,
                agent_id=agent_id,
                now_ms=now_ms,
            )
        )

    # --- artifacts and circuits

    async def add_artifact(self, artifact: Artifact) -> Artifact:
        """Note a file."""
        return await self.writer.submit(lambda c: sql_work.add_artifact(c, artifact))

    async def artifact(self, sha256: str) -> Artifact | None:
        """One artifact."""
        return await self._read(lambda c: sql_work.artifact_of(c, sha256))

    async def add_circuit(self, circuit: Circuit) -> tuple[Circuit, bool]:
        """Register a circuit."""
        return await self.writer.submit(lambda c: sql_work.add_circuit(c, circuit))

    async def artifacts(self, *, after: str = "", limit: int = PAGE_MAX) -> list[Artifact]:
        """Artifacts by digest."""
        return await self._read(lambda c: sql_work.artifacts(c, after, limit))

    async def circuit(self, id_or_name: str) -> Circuit | None:
        """One circuit."""
        return await self._read(lambda c: sql_work.circuit(c, id_or_name))

    async def circuits(self, *, after: str = "", limit: int = PAGE_MAX) -> list[Circuit]:
        """Circuits by id."""
        return await self._read(lambda c: sql_work.circuits(c, after, limit))

    async def set_circuit_labels(self, circuit_id: str, node_labels: dict[str, str]) -> Circuit | None:
        """Which nodes its jobs may go to."""
        return await self.writer.submit(lambda c: sql_work.set_circuit_labels(c, circuit_id, node_labels))

    # --- jobs

    async def add_job(self, job: Job) -> tuple[Job, bool]:
        """Persist a job."""
        return await self.writer.submit(lambda c: sql_work.add_job(c, job))

    async def job(self, job_id: str) -> JobPicture | None:
        """One job with its attempts."""
        return await self._read(lambda c: sql_work.job(c, job_id))

    async def job_pictures(
        self, *, before: str = "", limit: int = PAGE_MAX, state: JobState | None = None
    ) -> list[JobPicture]:
        """A page of jobs."""
        return await self._read(lambda c: sql_work.job_pictures(c, before, limit, state))

    async def job_counts(self) -> dict[JobState, int]:
        """Jobs by state."""
        return await self._read(sql_work.job_counts)

    async def open_jobs(self) -> list[JobPicture]:
        """Every job that has not ended."""
        return await self._read(sql_work.open_jobs)

    async def change_job(self, job_id: str, step: Step) -> JobPicture | None:
        """Apply a step to a job."""
        return await self.writer.submit(lambda c: sql_work.change_job(c, job_id, step))

    # --- events

    async def heads(self, agent_id: str, epochs: Sequence[str]) -> list[StreamHead]:
        """Committed heads."""
        return await self._read(lambda c: sql_work.heads(c, agent_id, epochs))

    async def ingest(
        self,
        agent_id: str,
        epoch: str,
        stream: Stream,
        events: Sequence[Event],
        received_at_ms: int,
        applies: Applies,
        *,
        sampled_at: SampledAt | None = None,
        left_out: str = "",
    ) -> IngestResult:
        """Store new events."""
        batch = Batch(
            agent_id=agent_id,
            epoch=epoch,
            stream=stream,
            events=events,
            received_at_ms=received_at_ms,
            applies=applies,
            sampled_at=sampled_at,
            left_out=left_out,
        )
        result: IngestResult = await self.writer.submit_together(self._take, batch, patient=stream is not Stream.JOBS)
        return result

    def ingest_soon(
        self,
        agent_id: str,
        epoch: str,
        stream: Stream,
        events: Sequence[Event],
        received_at_ms: int,
        settled: Callable[[IngestResult | BaseException], None],
        sampled_at: SampledAt | None = None,
    ) -> bool:
        """Store new events, and tell."""
        batch = Batch(
            agent_id=agent_id,
            epoch=epoch,
            stream=stream,
            events=events,
            received_at_ms=received_at_ms,
            applies=nothing_to_apply,
            sampled_at=sampled_at,
        )
        return self.writer.post(self._take, batch, settled)

    async def node_events(
        self,
        agent_id: str,
        *,
        stream: Stream | None = None,
        before: tuple[int, str, str, int] | None = None,
        limit: int = PAGE_MAX,
    ) -> list[StoredEvent]:
        """A node's events."""
        return await self._read(lambda c: sql_work.node_events(c, agent_id, stream, before, limit))

    async def add_hub_event(self, event: HubEvent) -> None:
        """Keep something the hub saw."""
        await self.writer.submit(lambda c: sql_work.add_hub_event(c, event))

    async def hub_events(self, agent_id: str, *, before: str = "", limit: int = PAGE_MAX) -> list[HubEvent]:
        """What the hub saw."""
        return await self._read(lambda c: sql_work.hub_events(c, agent_id, before, limit))

    # --- the history of what nodes measured

    async def sources(self, agent_id: str) -> list[Source]:
        """What a node has series of."""
        return await self._read(lambda c: sql_history.sources(c, agent_id))

    async def history(
        self, agent_id: str, tier: Tier, from_ms: int, to_ms: int, *, limit: int = HISTORY_ROWS_MAX
    ) -> list[HistoryRow]:
        """A node's rows of a tier."""
        return await self._read(lambda c: sql_history.history(c, agent_id, tier, from_ms, to_ms, limit))

    async def horizons(self) -> dict[Tier, int]:
        """How far each tier reaches back."""
        volumes = await self._read(sql_history.volumes)
        return {tier: volume.horizon_ms for tier, volume in volumes.items()}

    async def roll(self, ended_before_ms: int, *, limit: int) -> int:
        """Make rollups that are due."""
        return await self.writer.submit(lambda c: sql_history.roll(c, ended_before_ms, limit))

    # --- logs

    async def log_page(
        self, agent_id: str, wanted: LogFilter, *, after: int | None = None, newest_first: bool, limit: int = PAGE_MAX
    ) -> LogPage:
        """A page of a node's log."""
        return await self._read(
            lambda c: sql_logs.page(c, agent_id, wanted, after=after, newest_first=newest_first, limit=limit)
        )

    async def newest_log(self, agent_id: str) -> int:
        """The newest record's id."""
        return await self._read(lambda c: sql_logs.newest_id(c, agent_id))

    async def logs_behind(self, agent_id: str, after: int, count_max: int) -> int:
        """How many records there are after an id."""
        return await self._read(lambda c: sql_logs.behind(c, agent_id, after, count_max))

    # --- the SSH fallback

    async def ssh_targets(self) -> list[Reach]:
        """Every node's way in."""
        return await self._read(sql_ssh.targets)

    async def save_ssh_target(self, reach: Reach, event: HubEvent | None = None) -> None:
        """Write down a way in."""
        await self.writer.submit(lambda c: sql_ssh.save_target(c, reach, event))

    async def add_ssh_attempts(
        self, records: Sequence[Record], reach: Reach | None = None, event: HubEvent | None = None
    ) -> None:
        """Keep the tries of one attempt."""
        await self.writer.submit(lambda c: sql_ssh.add_attempts(c, records, reach, event))

    async def ssh_attempt(self, attempt_id: str) -> Record | None:
        """One try."""
        return await self._read(lambda c: sql_ssh.attempt(c, attempt_id))

    async def ssh_attempts(self, node_id: str, *, before: str = "", limit: int = PAGE_MAX) -> list[Record]:
        """A node's tries."""
        return await self._read(lambda c: sql_ssh.attempts(c, node_id, before, limit))

    async def expire_ssh_attempts(self, before_ms: int, *, limit: int) -> int:
        """Give up old tries."""
        return await self.writer.submit(lambda c: sql_ssh.expire_attempts(c, before_ms, limit))

    # --- giving up

    async def expire_tier(self, tier: Tier, before_ms: int, bytes_max: int, *, limit: int) -> int:
        """Give up the oldest rows of a tier."""

        def expire(connection: Connection) -> int:
            self.intake.samples.horizon_moved()
            return sql_retention.expire_tier(connection, tier, before_ms, bytes_max, limit)

        return await self.writer.submit(expire)

    async def expire_sources(self, before_ms: int, *, limit: int) -> int:
        """Give up the series of cards that are gone."""

        def expire(connection: Connection) -> int:
            gone = sql_retention.expire_sources(connection, before_ms, limit)
            if gone:
                self.intake.forget()
            return gone

        return await self.writer.submit(expire)

    async def expire_events(self, before_ms: int, bytes_max: int, *, limit: int) -> int:
        """Give up the oldest events."""
        return await self.writer.submit(lambda c: sql_retention.expire_events(c, before_ms, bytes_max, limit))

    async def expire_logs(self, before_ms: int, bytes_max: int, *, limit: int) -> int:
        """Give up the oldest log records."""
        return await self.writer.submit(lambda c: sql_logs.expire(c, before_ms, bytes_max, limit))

    async def expire_records(self, before_ms: int, rows_max: int, *, limit: int) -> int:
        """Give up ended sessions and what the hub saw."""
        return await self.writer.submit(lambda c: sql_retention.expire_records(c, before_ms, rows_max, limit))

    async def reclaim(self, bytes_max: int) -> int:
        """Hand space back to the file system."""
        return await self.writer.submit(lambda c: self._space.reclaim(c, bytes_max))

    async def usage(self) -> Usage:
        """How much is kept."""
        return await self._read(self._usage)

    def _usage(self, connection: Connection) -> Usage:
        tiers = sql_history.volumes(connection)
        volumes = {tier.name.lower(): tiers[tier] for tier in TIERS}
        counts = {
            "events": sql_retention.event_volume,
            "logs": sql_logs.usage,
            "ssh_attempts": sql_ssh.attempt_volume,
        }
        for name, counted in counts.items():
            rows, size_bytes = counted(connection)
            volumes[name] = Volume(rows=rows, size_bytes=size_bytes)
        file_bytes, free_bytes = self._space.measure(connection)
        return Usage(
            volumes=volumes,
            file_bytes=file_bytes,
            free_bytes=free_bytes,
            rollups_due=sql_history.due_count(connection),
        )
