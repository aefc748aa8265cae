"""Jobs from the desk to the verified proof, over real sockets, with whatever may come between."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, structs

from hub import jobs as steps
from hub import ports
from hub.bus import Bus, JobChanged
from hub.config import Config
from hub.desk import Desk
from hub.ids import uuid7
from hub.keys import Keys
from hub.ports import TooManyJobs
from hub.registry import Registry
from hub.store.records import AttemptState, JobPicture
from hub.store.sqlite import open_sqlite
from hub.verify import Verdict
from tests.hub.rig import Connection, FakeClock, Peer, RunningHub, running_hub, toy_files
from tests.hub.store.test_contract import a_job
from tests.hub.test_registry import ID, LIMITS, a_hello, an_agent
from wire.frames import AssignJob, HeldRange, JobFailed, JobHeld, JobReply, JobStarted, JobSucceeded, Stream
from wire.inputs import JobAssigned, JobCancelled
from wire.jobs import ENDED, JobState, Output
from wire.limits import JOBS_HELD_MAX
from wire.reasons import Reason
from wire.status import NodeStatus, WorkerReading, WorkerState


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    async with running_hub(tmp_path) as running:
        yield running


def result(frame: AssignJob, proof: bytes) -> JobSucceeded:
    digest = hashlib.sha256(proof).hexdigest()
    return JobSucceeded(frame.job, frame.attempt, [Output("proof", digest, len(proof), proof)], {"msm": 1.5})


async def take(connection: Connection, *, start: bool = False, seq: int = 1) -> AssignJob:
    """The next assignment, accepted, and started if asked."""
    frame = (await connection.until(JobAssigned)).frame
    connection.session.send_reply(JobReply(frame.job, frame.attempt, accepted=True))
    await connection.flush()
    if start:
        await connection.events(Stream.JOBS, JobStarted(frame.job, frame.attempt, "host", 7), first=seq)
        await connection.acknowledged(Stream.JOBS, seq)
    return frame


def states(picture: JobPicture) -> list[AttemptState]:
    return [attempt.state for attempt in picture.attempts]


async def test_a_proof_goes_the_whole_way_and_public_json_comes_from_the_witness(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as node:
        job = await hub.submit()
        frame = await take(node, start=True)
        assert (frame.job, frame.attempt, frame.engine, frame.lease_s) == (job, 1, "groth16", 60.0)
        assert [item.role for item in frame.inputs] == ["zkey", "wtns"]
        assert frame.spec.circuit == frame.inputs[0].sha256
        assert hub.app[ports.KEYS].fetch_token_valid(frame.fetch_token, peer.id)
        lease = hub.app[ports.JOBS].lease(job, 1)
        assert lease is not None
        assert (lease.agent_id, list(lease.inputs)) == (peer.id, frame.inputs)
        await node.events(Stream.JOBS, result(frame, toy_files().proof), first=2)
        picture = await hub.job_in(job, JobState.DONE)
    assert picture.job.proof is not None
    assert picture.job.public == toy_files().public
    assert picture.job.timings_ms == {"msm": 1.5}
    assert hub.app[ports.JOBS].lease(job, 1) is None


@pytest.mark.parametrize("lie", ["garbage", "a proof of other inputs", "nothing"])
async def test_a_lie_is_refused_said_and_the_job_goes_to_another_node(hub: RunningHub, lie: str) -> None:
    liar, honest = await hub.enroll("liar"), await hub.enroll("honest")
    async with liar.connect() as lying:
        job = await hub.submit()
        frame = await take(lying)
        async with honest.connect() as node:
            proof = {"garbage": b"\0\1\2", "a proof of other inputs": toy_files().proof_of_other_inputs}.get(lie)
            said = result(frame, proof) if proof else JobSucceeded(frame.job, frame.attempt, [])
            await lying.events(Stream.JOBS, said)
            again = await take(node)
            assert (again.job, again.attempt) == (job, 2)
            await node.events(Stream.JOBS, result(again, toy_files().proof))
            picture = await hub.job_in(job, JobState.DONE)
    assert states(picture) == [AttemptState.REFUSED, AttemptState.DONE]
    assert picture.attempts[0].detail.startswith("refused by the hub: ")
    (seen,) = await hub.store.hub_events(liar.id)
    assert seen.kind == "result.refused"
    assert await hub.store.hub_events(honest.id) == []


async def test_a_job_that_poisons_every_attempt_fails_with_the_last_reason(tmp_path: Path) -> None:
    async with running_hub(tmp_path, attempts_max=2) as hub:
        peer = await hub.enroll()
        async with peer.connect() as node:
            job = await hub.submit()
            for number in (1, 2):
                frame = await take(node)
                failure = JobFailed(frame.job, frame.attempt, 5, f"no card, time {number}")
                await node.events(Stream.JOBS, failure, first=number)
            picture = await hub.job_in(job, JobState.FAILED)
    assert picture.job.error_code == 5
    assert picture.job.error_detail == "given up after 2 failed attempts; the last one: no card, time 2"


async def test_a_node_that_declines_loses_the_job_to_another_and_is_not_blamed(hub: RunningHub) -> None:
    first, second = await hub.enroll("first"), await hub.enroll("second")
    async with first.connect() as busy:
        job = await hub.submit()
        frame = (await busy.until(JobAssigned)).frame
        async with second.connect() as idle:
            busy.session.send_reply(JobReply(job, frame.attempt, accepted=False, detail="draining"))
            await busy.flush()
            assert (await take(idle)).attempt == 2
            picture = await hub.job_in(job, JobState.LEASED)
    assert picture.job.failures == 0
    assert (picture.attempts[0].state, picture.attempts[0].detail) == (AttemptState.DECLINED, "declined: draining")


async def test_a_cancelled_job_is_called_off_at_the_node(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as node:
        job = await hub.submit()
        frame = await take(node, start=True)
        cancelled = await hub.app[ports.JOBS].cancel(job)
        assert cancelled is not None
        assert cancelled.state is JobState.CANCELLED
        told = (await node.until(JobCancelled)).frame
        assert (told.job, told.attempt) == (job, frame.attempt)
        again = await hub.app[ports.JOBS].cancel(job)
        assert again is not None
        assert again.state is JobState.CANCELLED
    assert await hub.app[ports.JOBS].cancel(uuid7()) is None


async def test_an_assignment_that_may_not_have_arrived_is_said_again(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as node:
        job = await hub.submit()
        first = (await node.until(JobAssigned)).frame
    async with peer.connect() as node:
        again = (await node.until(JobAssigned)).frame
    assert again == first
    assert again.job == job


async def test_a_restarted_hub_finds_its_jobs_and_their_nodes_again(tmp_path: Path) -> None:
    async with running_hub(tmp_path) as hub:
        peer = await hub.enroll()
        async with peer.connect() as node:
            job = await hub.submit()
            frame = await take(node, start=True)
    async with running_hub(tmp_path) as hub:
        peer.hub = hub
        held = [HeldRange(peer.epoch, Stream.JOBS, 2, 2)]
        async with peer.connect(jobs=[JobHeld(job, frame.attempt)], held=held) as node:
            await node.events(Stream.JOBS, result(frame, toy_files().proof), first=2)
            picture = await hub.job_in(job, JobState.DONE)
    assert states(picture) == [AttemptState.DONE]


async def test_a_result_that_was_stored_and_not_yet_verified_is_verified_by_the_next_hub(tmp_path: Path) -> None:
    async with running_hub(tmp_path) as hub:
        peer = await hub.enroll()
        async with peer.connect() as node:
            job = await hub.submit()
            frame = await take(node)
            for task in list(hub.background._tasks):  # as if the hub died before it came to verification
                if task.get_name() == "judge":
                    task.cancel()
            await node.events(Stream.JOBS, result(frame, toy_files().proof))
            await node.acknowledged(Stream.JOBS, 1)
            assert (await hub.job_in(job, JobState.VERIFYING)).attempts[0].outputs
    async with running_hub(tmp_path) as hub:
        assert states(await hub.job_in(job, JobState.DONE)) == [AttemptState.DONE]


async def test_a_restarted_agent_without_its_job_loses_it_at_once(hub: RunningHub) -> None:
    peer, other = await hub.enroll("first"), await hub.enroll("other")
    async with peer.connect() as node:
        job = await hub.submit()
        await take(node, start=True)
    peer.epoch = uuid7()
    async with other.connect() as helper, peer.connect():
        assert (await take(helper)).attempt == 2
        picture = await hub.job_in(job, JobState.LEASED)
    assert (picture.attempts[0].state, picture.attempts[0].detail) == (
        AttemptState.LOST,
        "the node came back without it",
    )


async def test_a_restarted_agent_is_heard_out_before_its_job_counts_as_lost(hub: RunningHub) -> None:
    """Its outbox still holds the true reason; the lease is not taken away before that is read."""
    peer = await hub.enroll()
    async with peer.connect() as node:
        job = await hub.submit()
        frame = await take(node, start=True)
    old_epoch, peer.epoch = peer.epoch, uuid7()
    async with peer.connect(held=[HeldRange(old_epoch, Stream.JOBS, 2, 2)]) as node:
        failure = JobFailed(job, frame.attempt, 6, "the worker died (signal 9, Killed) in phase msm")
        await node.events(Stream.JOBS, failure, first=2, epoch=old_epoch)
        assert (await take(node)).attempt == 2
        picture = await hub.job_in(job, JobState.LEASED)
    assert (picture.attempts[0].state, picture.attempts[0].detail) == (AttemptState.FAILED, failure.detail)


async def test_a_lease_runs_out_elsewhere_and_a_late_result_still_wins(tmp_path: Path) -> None:
    async with running_hub(tmp_path, lease_s=0.05, lease_grace_s=0.0) as hub:
        slow, fast = await hub.enroll("slow"), await hub.enroll("fast")
        async with slow.connect() as late:
            job = await hub.submit()
            frame = await take(late)
            async with fast.connect() as node:
                other = (await node.until(JobAssigned)).frame
                assert other.attempt > frame.attempt
                await late.events(Stream.JOBS, result(frame, toy_files().proof))
                assert (await node.until(JobCancelled)).frame.job == job
                picture = await hub.job_in(job, JobState.DONE)
    assert picture.attempts[0].state is AttemptState.DONE
    assert AttemptState.DONE not in states(picture)[1:]


async def test_an_old_attempts_lease_is_its_own_and_is_answered_not_punished(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as node:
        job = await hub.submit()
        frame = await take(node)
        await hub.app[ports.JOBS].cancel(job)
        await node.until(JobCancelled)
        node.session.renew([JobHeld(job, frame.attempt)])
        node.session.send_reply(JobReply(job, frame.attempt, accepted=True))
        await node.flush()
        await node.until(JobCancelled)
        await node.until(JobCancelled)
        assert hub.app[ports.SESSIONS].count() == 1


async def test_a_revoked_node_loses_its_lease_and_its_right_to_fetch(hub: RunningHub) -> None:
    peer, other = await hub.enroll("first"), await hub.enroll("other")
    async with peer.connect() as node:
        job = await hub.submit()
        await take(node)
        async with other.connect() as helper:
            await hub.store.revoke_agent(peer.id, 1)
            await hub.app[ports.SESSIONS].end(peer.id, Reason.REVOKED, "revoked")
            assert hub.app[ports.JOBS].lease(job, 1) is None
            assert (await take(helper)).attempt == 2


async def test_a_full_queue_says_so_and_stores_nothing(tmp_path: Path) -> None:
    async with running_hub(tmp_path, jobs_open_max=1) as hub:
        job = await hub.submit()
        with pytest.raises(TooManyJobs):
            await hub.submit()
        assert [picture.job.id for picture in await hub.store.open_jobs()] == [job]


async def test_a_node_whose_workers_are_all_down_gets_a_job_when_one_is_up(hub: RunningHub) -> None:
    peer = await hub.enroll()
    async with peer.connect() as node:
        await node.status(NodeStatus(workers=[WorkerReading("host", WorkerState.DOWN, detail="no compiler")]))
        await _reported(hub, peer)
        job = await hub.submit()
        assert hub.app[ports.JOBS].holder(job) is None
        await node.status(NodeStatus(workers=[WorkerReading("host", WorkerState.IDLE)]))
        assert (await take(node)).job == job


async def test_a_node_has_a_place_for_each_worker_and_none_while_it_drains(hub: RunningHub) -> None:
    peer = await hub.enroll()
    workers = [WorkerReading(device, WorkerState.IDLE) for device in ("cuda:0", "cuda:1")]
    workers.append(WorkerReading("cuda:2", WorkerState.DOWN))
    async with peer.connect() as node:
        await node.status(NodeStatus(draining=True, workers=workers))
        await _reported(hub, peer)
        jobs = {await hub.submit() for _ in range(3)}
        assert all(hub.app[ports.JOBS].holder(job) is None for job in jobs)
        await node.status(NodeStatus(draining=False))
        taken = {(await take(node)).job, (await take(node)).job}
        assert taken < jobs
        counts = await hub.store.job_counts()
    assert (counts[JobState.LEASED], counts[JobState.QUEUED]) == (2, 1)


async def test_a_node_gets_no_more_jobs_than_its_hello_can_list(hub: RunningHub) -> None:
    """Jobs it cannot list would count as lost whenever it comes back, and their leases could not be renewed."""
    peer = await hub.enroll()
    workers = [WorkerReading(f"cuda:{number}", WorkerState.IDLE) for number in range(JOBS_HELD_MAX + 3)]
    async with peer.connect() as node:
        await node.status(NodeStatus(workers=workers))
        await _reported(hub, peer)
        for _ in workers:
            await hub.submit()
        for _ in range(JOBS_HELD_MAX):
            await take(node)
        counts = await hub.store.job_counts()
    assert (counts[JobState.LEASED], counts[JobState.QUEUED]) == (JOBS_HELD_MAX, 3)


async def _reported(hub: RunningHub, peer: Peer) -> None:
    with hub.app[ports.BUS].subscribe() as changes:
        async with asyncio.timeout(10):
            while (node := hub.app[ports.REGISTRY].node(peer.id)) is None or node.status.workers is UNSET:
                await anext(changes)


async def test_an_assignment_that_was_committed_unheard_is_said_all_the_same(hub: RunningHub) -> None:
    """The store may fail for one operation of a round and have committed the others, which nobody waits for then."""
    peer = await hub.enroll()
    job = await hub.submit()
    assert await hub.store.change_job(job, lambda picture: steps.assign(picture, peer.id, 1)) is not None
    async with peer.connect() as node:
        frame = await take(node)
    assert (frame.job, frame.attempt) == (job, 1)


async def test_a_job_whose_client_was_given_up_on_is_queued_all_the_same(hub: RunningHub) -> None:
    """A request's deadline may end it while the store commits: what is stored is then also known to the desk."""
    first = await hub.store.job(await hub.submit())
    assert first is not None
    desk, job = hub.app[ports.JOBS], structs.replace(first.job, id=uuid7())
    client = asyncio.create_task(desk.submit(job))
    await asyncio.sleep(0)
    client.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client
    await desk.cancel(first.job.id)
    peer = await hub.enroll()
    async with peer.connect() as node:
        assert (await take(node)).job == job.id


async def test_a_result_that_has_become_vain_behind_the_desks_back_is_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be verified again and again, and no other result ever."""
    async with running_hub(tmp_path) as hub:
        peer = await hub.enroll()
        async with peer.connect() as node:
            job = await hub.submit()
            frame = await take(node)
            verifier = hub.app[ports.VERIFIER]
            verify, looked = verifier.verify_proof, asyncio.Event()

            async def after_a_cancel(*args: Any) -> Verdict:
                await hub.store.change_job(job, lambda picture: steps.cancel(picture, "elsewhere", 1))
                looked.set()
                return await verify(*args)

            monkeypatch.setattr(verifier, "verify_proof", after_a_cancel)
            with hub.app[ports.BUS].subscribe() as changes:
                await node.events(Stream.JOBS, result(frame, toy_files().proof))
                async with asyncio.timeout(20):
                    while not isinstance(change := await anext(changes), JobChanged) or change.job.state not in ENDED:
                        pass
            assert looked.is_set()
            assert change.job.state is JobState.CANCELLED
            assert verifier.outcomes["proof", "ok"] == 1


async def test_leases_do_not_age_while_the_hub_itself_stands_still(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_sqlite(tmp_path / "hub.sqlite") as store:
        registry = Registry(clock, LIMITS)
        registry.add(an_agent())
        registry.opened(ID, "s", a_hello(), "r")
        config = Config(data_dir=tmp_path)
        desk = Desk(config=config, clock=clock, store=store, registry=registry, bus=Bus(), keys=Keys.load(tmp_path))
        leased = steps.assign(JobPicture(job=a_job()), ID, 0)
        assert leased is not None
        desk.absorb([leased])
        clock.move(3600.0)
        await desk.settle()
        assert desk.holder("j1") == ID
        assert desk.dispatch.decide([], clock.monotonic() + 73.9) == []
        for _ in range(75):
            clock.move(1.0)
            desk._notice_absence()
        assert desk.dispatch.decide([], clock.monotonic() + 5.0)
