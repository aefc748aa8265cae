"""When the check itself fails. Verdicts on good and bad proofs are in `test_desk`, over sockets."""

from pathlib import Path

import pytest

from hub import judging, ports
from hub.store.records import AttemptState
from tests.hub.rig import running_hub, toy_files
from tests.hub.test_desk import result, states, take
from wire.frames import Stream
from wire.jobs import JobState


async def test_a_check_that_never_ends_is_tried_again_and_then_counts_as_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "RETRY_S", 0.0)
    async with running_hub(tmp_path, verify_s=0.001, attempts_max=1) as hub:
        peer = await hub.enroll()
        async with peer.connect() as node:
            job = await hub.submit()
            await node.events(Stream.JOBS, result(await take(node), toy_files().proof))
            picture = await hub.job_in(job, JobState.FAILED)
        assert hub.app[ports.VERIFIER].outcomes["proof", "failed"] == judging.HUB_FAULTS_MAX
    assert states(picture) == [AttemptState.REFUSED]
    assert "deadline" in picture.job.error_detail


async def test_a_witness_that_is_gone_is_said_and_no_proof_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "RETRY_S", 0.0)
    async with running_hub(tmp_path, attempts_max=1) as hub:
        peer = await hub.enroll()
        async with peer.connect() as node:
            job = await hub.submit()
            frame = await take(node)
            hub.app[ports.ARTIFACTS].path(frame.inputs[1].sha256).unlink()
            await node.events(Stream.JOBS, result(frame, toy_files().proof))
            picture = await hub.job_in(job, JobState.FAILED)
    assert picture.job.proof is None
    assert "refused by the hub" in picture.job.error_detail
