"""What every store must do, run unchanged over each implementation."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from hub import jobs as steps
from hub.store.base import (
    ForeignReference,
    HoleInStream,
    IdempotencyConflict,
    IngestResult,
    KeyTaken,
    NameTaken,
    Step,
    Store,
    StoreClosed,
)
from hub.store.records import (
    Agent,
    Artifact,
    AttemptState,
    Circuit,
    EnrollRefusal,
    EnrollToken,
    HubEvent,
    Job,
    JobPicture,
    SessionRow,
    StatusNote,
)
from hub.store.sqlite import open_sqlite
from tests.hub.rig import numbered
from wire.codec import decode_event
from wire.frames import EventBody, Gap, JobFailed, JobStarted, NodeEvent, Stream, UnknownBody
from wire.jobs import Input, JobState
from wire.reasons import Reason

EPOCH = "00000000-0000-7000-8000-00000000000e"
NEWS = NodeEvent("some.thing", "happened")
JOB = "00000000-0000-7000-8000-00000000000a"
UNKNOWN_JOB = "00000000-0000-7000-8000-00000000000b"
NOW_MS = 1_000_000


async def token(store: Store, name: str = "t1", uses_max: int = 1, expires_at_ms: int = 2 * NOW_MS) -> bytes:
    secret_hash = name.encode().ljust(32, b"-")
    await store.add_enroll_token(
        EnrollToken(
            id=name,
            secret_hash=secret_hash,
            uses_max=uses_max,
            expires_at_ms=expires_at_ms,
            created_at_ms=NOW_MS,
            labels={"rack": "7"},
        )
    )
    return secret_hash


async def enroll(store: Store, secret_hash: bytes, name: str, now_ms: int = NOW_MS) -> Agent | EnrollRefusal:
    return await store.enroll(
        secret_hash=secret_hash,
        enrollment_id=f"enrollment of {name}",
        public_key=name.encode().ljust(32, b"-"),
        name=name,
        agent_id=f"id of {name}",
        now_ms=now_ms,
    )


async def an_agent(store: Store, name: str = "n1") -> Agent:
    agent = await enroll(store, await token(store, f"token of {name}"), name)
    assert isinstance(agent, Agent)
    return agent


def a_circuit(name: str = "c1", key: str = "a") -> Circuit:
    return Circuit(
        id=key * 64,
        name=name,
        zkey_bytes=5,
        curve="bn128",
        n_public=1,
        n_vars=4,
        domain_size=8,
        verification_key=b"{}",
        created_at_ms=NOW_MS,
    )


def a_job(name: str = "j1", **changes: object) -> Job:
    job = Job(
        id=name,
        circuit_id="a" * 64,
        engine="groth16",
        curve="bn128",
        inputs=(Input("zkey", "a" * 64, 5), Input("wtns", "b" * 64, 6)),
        created_at_ms=NOW_MS,
    )
    return msgspec.structs.replace(job, **changes)


async def with_circuit(store: Store) -> None:
    await store.add_artifact(Artifact(sha256="a" * 64, bytes_=5, created_at_ms=NOW_MS))
    await store.add_circuit(a_circuit())


# --- the hub and its sessions


async def test_generations_count_up_and_the_id_stays(store: Store) -> None:
    first, second = await store.begin_generation(10), await store.begin_generation(20)
    assert (first.generation, second.generation) == (1, 2)
    assert first.id == second.id
    assert (second.created_at_ms, second.started_at_ms) == (10, 20)


async def test_a_session_writes_down_what_the_hello_said_and_how_it_ended(store: Store) -> None:
    agent = await an_agent(store)
    said = msgspec.structs.replace(agent, boot_id="b", epoch=EPOCH, version="9", capabilities=("x", "y"), name="new")
    row = SessionRow(id="s", agent_id=agent.id, opened_at_ms=5, generation=1, remote="r", boot_id="b", epoch=EPOCH)
    await store.open_session(row, said)
    await store.close_session("s", 9, 17, "slow")
    stored = await store.agent(agent.id)
    assert stored == msgspec.structs.replace(
        said, last_heard_at_ms=5, last_reason_code=17, last_reason_detail="slow", last_reason_at_ms=9
    )


async def test_an_end_that_comes_late_ends_its_own_session_and_is_not_the_nodes_last_word(store: Store) -> None:
    agent = await an_agent(store)
    for name, opened_at_ms in (("s", 5), ("t", 20)):
        row = SessionRow(
            id=name, agent_id=agent.id, opened_at_ms=opened_at_ms, generation=1, remote="r", boot_id="b", epoch=EPOCH
        )
        await store.open_session(row, agent)
    new, left = sorted(await store.sessions(agent.id), key=lambda row: -row.opened_at_ms)
    assert (left.closed_at_ms, left.reason_code, new.closed_at_ms) == (20, Reason.CONNECTION_LOST, None)
    await store.close_session("t", 30, 1, "stopped")
    await store.close_session("s", 9, 17, "slow")
    left = min(await store.sessions(agent.id), key=lambda row: row.opened_at_ms)
    assert (left.closed_at_ms, left.reason_code) == (9, 17)
    stored = await store.agent(agent.id)
    assert stored is not None
    assert (stored.last_reason_code, stored.last_reason_at_ms) == (1, 30)


async def test_a_status_note_keeps_the_last_status_when_there_is_none_new(store: Store) -> None:
    agent = await an_agent(store)
    await store.note_status([StatusNote(agent_id=agent.id, heard_at_ms=5, packed=b"{}")])
    await store.note_status([StatusNote(agent_id=agent.id, heard_at_ms=6, packed=None)])
    stored = await store.agent(agent.id)
    assert stored is not None
    assert (stored.last_heard_at_ms, stored.last_status) == (6, b"{}")


# --- enrolment


async def test_a_token_is_used_once_and_the_same_request_again_gives_the_same_agent(store: Store) -> None:
    secret_hash = await token(store)
    agent = await enroll(store, secret_hash, "n1")
    assert isinstance(agent, Agent)
    assert agent.labels == {"rack": "7"}
    assert await enroll(store, secret_hash, "n1") == agent
    assert await enroll(store, secret_hash, "n2") is EnrollRefusal.USED_UP
    assert await enroll(store, secret_hash, "n1", now_ms=3 * NOW_MS) == agent
    stored = await store.enroll_token("t1")
    assert stored is not None
    assert stored.uses == 1


async def test_refusals_of_enrolment_are_told_apart(store: Store) -> None:
    assert await enroll(store, b"?" * 32, "n1") is EnrollRefusal.UNKNOWN
    assert await enroll(store, await token(store, "old", expires_at_ms=NOW_MS), "n1") is EnrollRefusal.EXPIRED
    revoked = await token(store, "gone")
    assert await store.revoke_enroll_token("gone", 7) is not None
    assert await enroll(store, revoked, "n1") is EnrollRefusal.REVOKED
    await an_agent(store, "n1")
    assert await enroll(store, await token(store, "other"), "n1") is EnrollRefusal.KEY_IN_USE


async def test_many_nodes_at_once_never_overdraw_a_token(store: Store) -> None:
    secret_hash = await token(store, uses_max=5)
    answers = await asyncio.gather(*(enroll(store, secret_hash, f"n{index}") for index in range(20)))
    assert sum(isinstance(answer, Agent) for answer in answers) == 5
    assert answers.count(EnrollRefusal.USED_UP) == 15


async def test_a_revocation_stands_from_its_first_time(store: Store) -> None:
    agent = await an_agent(store)
    await store.revoke_agent(agent.id, 5)
    again = await store.revoke_agent(agent.id, 6)
    assert again is not None
    assert again.revoked_at_ms == 5
    assert await store.revoke_agent("nobody", 5) is None
    assert await store.revoke_enroll_token("nothing", 5) is None


async def test_listings_go_on_after_the_last_id(store: Store) -> None:
    for name in ("a", "b", "c"):
        await an_agent(store, name)
    page = await store.agents(limit=2)
    assert [agent.name for agent in page] == ["a", "b"]
    assert [agent.name for agent in await store.agents(after=page[-1].id)] == ["c"]
    assert [item.id for item in await store.enroll_tokens(after="token of a")] == ["token of b", "token of c"]


# --- artifacts and circuits


async def test_the_first_entry_of_an_artifact_stands(store: Store) -> None:
    first = Artifact(sha256="a" * 64, bytes_=5, created_at_ms=1)
    assert await store.add_artifact(first) == first
    assert await store.add_artifact(msgspec.structs.replace(first, created_at_ms=2)) == first
    assert await store.artifact("b" * 64) is None


async def test_a_circuits_name_belongs_to_one_key(store: Store) -> None:
    for digest in ("a" * 64, "b" * 64):
        await store.add_artifact(Artifact(sha256=digest, bytes_=5, created_at_ms=1))
    circuit, new = await store.add_circuit(a_circuit())
    assert new
    assert await store.add_circuit(msgspec.structs.replace(a_circuit(), created_at_ms=9)) == (circuit, False)
    with pytest.raises(NameTaken, match="'c1' belongs to"):
        await store.add_circuit(a_circuit(key="b"))
    with pytest.raises(KeyTaken, match="registered as 'c1'"):
        await store.add_circuit(a_circuit("c2"))
    assert await store.circuit("c1") == await store.circuit(circuit.id) == circuit
    assert await store.circuit("nothing") is None
    assert await store.circuits() == [circuit]
    assert await store.circuits(after=circuit.id) == []


# --- jobs


async def test_an_idempotency_key_is_one_request(store: Store) -> None:
    await with_circuit(store)
    job = a_job(idempotency_key="k", request_sha256="1")
    assert await store.add_job(job) == (job, True)
    assert await store.add_job(msgspec.structs.replace(job, id="j2")) == (job, False)
    with pytest.raises(IdempotencyConflict):
        await store.add_job(msgspec.structs.replace(job, id="j3", request_sha256="2"))
    assert [picture.job.id for picture in await store.open_jobs()] == ["j1"]


async def test_a_job_of_no_circuit_is_not_stored_and_others_of_its_batch_are(store: Store) -> None:
    await with_circuit(store)
    answers = await asyncio.gather(
        store.add_job(a_job("j1")),
        store.add_job(a_job("j2", circuit_id="none")),
        store.add_job(a_job("j3")),
        return_exceptions=True,
    )
    assert isinstance(answers[1], Exception)
    assert [picture.job.id for picture in await store.open_jobs()] == ["j1", "j3"]


async def test_a_step_changes_job_and_attempts_together(store: Store) -> None:
    await with_circuit(store)
    agent = await an_agent(store)
    await store.add_job(a_job())
    picture = await store.change_job("j1", lambda p: steps.assign(p, agent.id, 5))
    assert picture is not None
    assert picture == await store.job("j1")
    assert picture.live is not None
    assert (picture.job.state, picture.live.agent_id, picture.job.revision) == (JobState.LEASED, agent.id, 1)
    assert await store.change_job("j1", lambda p: steps.assign(p, agent.id, 6)) is None
    assert await store.change_job("nothing", lambda p: p) is None
    lost = await store.change_job("j1", lambda p: steps.end_lease(p, 1, AttemptState.LOST, "gone", 7, 3))
    assert lost is not None
    assert lost == await store.job("j1")
    assert (lost.job.state, lost.job.failures, lost.attempts[0].detail) == (JobState.QUEUED, 1, "gone")


async def test_listings_of_jobs_leave_the_bulk_out_and_count_every_state(store: Store) -> None:
    await with_circuit(store)
    agent = await an_agent(store)
    for name in ("j1", "j2", "j3"):
        await store.add_job(a_job(name))
    await store.change_job("j2", lambda p: steps.assign(p, agent.id, 5))
    await store.change_job("j3", lambda p: steps.cancel(p, "enough", 6))
    assert [picture.job.id for picture in await store.job_pictures(limit=2)] == ["j3", "j2"]
    (leased,) = await store.job_pictures(state=JobState.LEASED)
    assert leased.attempts[0].agent_id == agent.id
    assert [picture.job.id for picture in await store.job_pictures(before="j2")] == ["j1"]
    counts = await store.job_counts()
    assert counts.keys() == set(JobState)
    assert (counts[JobState.QUEUED], counts[JobState.CANCELLED], counts[JobState.DONE]) == (1, 1, 0)
    assert [picture.job.id for picture in await store.open_jobs()] == ["j1", "j2"]


# --- events


def nothing_to_apply(_body: EventBody) -> tuple[str, Step] | None:
    return None


async def test_events_nobody_waits_for_are_stored_in_order_and_told_after_the_commit(store: Store) -> None:
    agent = await an_agent(store)
    loop = asyncio.get_running_loop()
    told: list[IngestResult | BaseException] = []
    done: asyncio.Future[None] = loop.create_future()

    def settled(outcome: IngestResult | BaseException) -> None:
        told.append(outcome)
        if len(told) == 3:
            done.set_result(None)

    for events in (numbered([NEWS] * 2), numbered([NEWS], first=3), numbered([NEWS], first=5)):
        assert store.ingest_soon(agent.id, EPOCH, Stream.EVENTS, events, NOW_MS, settled)
    assert told == []
    await asyncio.wait_for(done, 10.0)
    assert told[:2] == [IngestResult(head=2, stored=2), IngestResult(head=3, stored=1)]
    assert isinstance(told[2], HoleInStream)
    assert [event.seq for event in await store.node_events(agent.id)] == [3, 2, 1]
    await store.close()
    assert not store.ingest_soon(agent.id, EPOCH, Stream.EVENTS, numbered([NEWS], first=4), NOW_MS, settled)


async def test_events_come_back_as_they_were_and_are_stored_once(store: Store) -> None:
    agent = await an_agent(store)
    events = numbered([NEWS, UnknownBody("from.tomorrow", b"\x82\xa1k\xadfrom.tomorrow\xa1x\x01")])
    first = await store.ingest(agent.id, EPOCH, Stream.EVENTS, events, NOW_MS, nothing_to_apply)
    assert (first.head, first.stored) == (2, 2)
    again = await store.ingest(
        agent.id, EPOCH, Stream.EVENTS, [*events, *numbered([NEWS], first=3)], NOW_MS, nothing_to_apply
    )
    assert (again.head, again.stored) == (3, 1)
    stored = await store.node_events(agent.id)
    assert [(event.seq, event.kind) for event in stored] == [(3, "ev"), (2, "from.tomorrow"), (1, "ev")]
    assert [decode_event(event.packed) for event in reversed(stored)][:2] == events
    last = stored[-1]
    key = (last.received_at_ms, last.epoch, last.stream, last.seq)
    assert await store.node_events(agent.id, before=key) == []
    assert await store.node_events(agent.id, stream=Stream.LOGS) == []
    assert await store.node_events(agent.id, stream=Stream.EVENTS, limit=2) == stored[:2]


async def test_heads_are_kept_for_each_stream_and_epoch(store: Store) -> None:
    agent = await an_agent(store)
    await store.ingest(agent.id, EPOCH, Stream.EVENTS, numbered([NEWS] * 3), NOW_MS, nothing_to_apply)
    await store.ingest(agent.id, "other", Stream.LOGS, numbered([NEWS]), NOW_MS, nothing_to_apply)
    heads = await store.heads(agent.id, [EPOCH, "other", "never"])
    assert {(head.epoch, head.stream, head.seq) for head in heads} == {(EPOCH, "events", 3), ("other", "logs", 1)}
    assert await store.heads("nobody", [EPOCH]) == []


async def test_a_gap_stands_for_its_range_and_a_hole_is_refused(store: Store) -> None:
    agent = await an_agent(store)
    gap = numbered([Gap(1, 7, 7, "the outbox was full")], first=7)
    assert (await store.ingest(agent.id, EPOCH, Stream.LOGS, gap, NOW_MS, nothing_to_apply)).head == 7
    with pytest.raises(HoleInStream, match="event 9 does not follow event 7"):
        await store.ingest(agent.id, EPOCH, Stream.LOGS, numbered([NEWS], first=9), NOW_MS, nothing_to_apply)
    assert [head.seq for head in await store.heads(agent.id, [EPOCH])] == [7]


async def test_job_events_move_their_job_in_the_same_transaction(store: Store) -> None:
    await with_circuit(store)
    agent = await an_agent(store)
    await store.add_job(a_job(JOB))
    await store.change_job(JOB, lambda p: steps.assign(p, agent.id, 5))
    events = numbered(
        [JobStarted(JOB, 1, "host", 4), JobFailed(JOB, 1, 5, "no card"), JobStarted(UNKNOWN_JOB, 1, "host", 4)]
    )

    def applies(body: EventBody) -> tuple[str, Step] | None:
        return steps.step_for(body, agent.id, 6, 3)

    result = await store.ingest(agent.id, EPOCH, Stream.JOBS, events, NOW_MS, applies)
    assert (result.head, result.stored) == (3, 3)
    (picture,) = result.pictures
    assert picture == await store.job(JOB)
    assert (picture.job.state, picture.job.failures) == (JobState.QUEUED, 1)
    assert (picture.attempts[0].state, picture.attempts[0].detail) == (AttemptState.FAILED, "no card")
    assert result.foreign == (f"there is no job {UNKNOWN_JOB}",)
    again = await store.ingest(agent.id, EPOCH, Stream.JOBS, events, NOW_MS, applies)
    assert (again.stored, again.pictures, again.foreign) == (0, (), ())


async def test_a_foreign_step_changes_nothing_and_is_told(store: Store) -> None:
    await with_circuit(store)
    agent = await an_agent(store)
    await store.add_job(a_job(JOB))

    def foreign(_picture: JobPicture) -> JobPicture:
        raise ForeignReference("not yours")

    said = numbered([JobStarted(JOB, 1, "host", 4)])
    result = await store.ingest(agent.id, EPOCH, Stream.JOBS, said, NOW_MS, lambda _: (JOB, foreign))
    assert (result.stored, result.pictures, result.foreign) == (1, (), ("not yours",))
    assert await store.job(JOB) == JobPicture(job=a_job(JOB))


async def test_what_the_hub_saw_comes_newest_first(store: Store) -> None:
    agent = await an_agent(store)
    seen = [
        HubEvent(id=name, agent_id=agent.id, time_ms=5, kind="k", level="info", detail="'; drop table agents; --")
        for name in ("1", "2")
    ]
    for event in seen:
        await store.add_hub_event(event)
    assert await store.hub_events(agent.id) == seen[::-1]
    assert await store.hub_events(agent.id, limit=1) == seen[1:]


# --- closing


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        pass
    with pytest.raises(StoreClosed):
        await store.begin_generation(1)
    with pytest.raises(StoreClosed):
        await store.agents()
