"""Every result is verified before it is anyone's proof: one at a time, resumed after a restart, never skipped.

A result lies in the store from the moment its event was acknowledged; this task only ever reads it from there (by the
dispatcher's picture), so a crash between the two loses nothing.
"""

import asyncio
from collections import Counter

import structlog
from msgspec import Struct

from hub.artifacts import Artifacts
from hub.desk import Desk
from hub.jobs import output
from hub.store.base import Store, StoreUnavailable
from hub.store.records import Attempt, JobPicture
from hub.verify import Verdict, Verifier
from wire.jobs import Output

log = structlog.get_logger(__name__)

HUB_FAULTS_MAX = 3
"""Tries of a check that fails by itself; then the result counts as refused, since it may be what breaks the check."""
RETRY_S = 1.0


class _Refused(Struct, frozen=True):
    why: str


class Judge:
    """Takes results from the desk, asks the verifier, and tells the desk."""

    def __init__(self, *, store: Store, desk: Desk, artifacts: Artifacts, verifier: Verifier) -> None:
        self._store = store
        self._desk = desk
        self._artifacts = artifacts
        self._verifier = verifier
        self._faults: Counter[tuple[str, int]] = Counter()

    async def run(self) -> None:
        """Verify whatever waits, for ever."""
        while True:
            await self._desk.results.wait()
            waiting = self._desk.dispatch.results()
            if not waiting:
                self._desk.results.clear()
                continue
            try:
                await self._settle(*waiting[0])
            except StoreUnavailable as error:
                log.error("verification waits for the store", error=str(error))  # noqa: TRY400 - told by the writer
                await asyncio.sleep(RETRY_S)

    async def _settle(self, picture: JobPicture, attempt: Attempt) -> None:
        key = (picture.job.id, attempt.attempt)
        verdict = await self._check(picture, attempt)
        if isinstance(verdict, _Refused):
            await self._desk.refused(picture, attempt, verdict.why)
        elif verdict.ok:
            await self._desk.verified(picture, attempt, verdict.proof_json.encode(), verdict.public_json.encode())
        elif verdict.hub_fault and self._faults[key] + 1 < HUB_FAULTS_MAX:
            self._faults[key] += 1
            log.warning("a result could not be verified; trying again", job=key[0], detail=verdict.detail)
            await asyncio.sleep(RETRY_S)
            return
        else:
            await self._desk.refused(picture, attempt, verdict.detail)
        self._faults.pop(key, None)

    async def _check(self, picture: JobPicture, attempt: Attempt) -> Verdict | _Refused:
        job = picture.job
        proof = output(attempt.outputs, "proof")
        witness = job.input("wtns")
        circuit = await self._store.circuit(job.circuit_id)
        if witness is None or circuit is None:
            return _Refused("the job has no witness or no circuit; it cannot be verified")
        if proof is None or not proof.data:
            return _Refused(_missing(attempt.outputs))
        return await self._verifier.verify_proof(
            circuit.verification_key, self._artifacts.path(witness.sha256), circuit.n_public, proof.data
        )


def _missing(outputs: tuple[Output, ...]) -> str:
    roles = ", ".join(item.role for item in outputs) or "nothing"
    return f"the result carries no proof (it has: {roles})"
