"""Whatever strangers sent is read in a child process with limits: proofs, proving keys, witnesses.

A proof is not stored as good before `Verifier.verify_proof` said so. A child that crashes, runs out of memory or time
is an answer too, with a sentence; it is the hub's own trouble and no node's fault.
"""

import asyncio
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from hub.children import Bounded, child
from hub.verify_child import (
    OUT_OF_MEMORY,
    Answer,
    CircuitInfo,
    FileProblem,
    InspectCircuit,
    InspectWitness,
    Limits,
    Question,
    Request,
    Verdict,
    VerifyProof,
    WitnessInfo,
)

__all__ = ["CircuitInfo", "FileProblem", "Limits", "Verdict", "Verifier", "WitnessInfo"]

log = structlog.get_logger(__name__)

ANSWER_BYTES_MAX = 1024 * 1024
"""Verification key or public inputs of `PUBLIC_INPUTS_MAX` signals, and room to spare."""
STDERR_BYTES_MAX = 16 * 1024
ARGV = (sys.executable, "-I", "-m", "hub.verify_child")
PUBLIC_INPUTS_MAX = 2048
"""Each costs a scalar multiplication in plain Python, some milliseconds, and about 250 bytes of a verification key."""
CHILDREN_MAX = 2
"""At once. More wait their turn; each is one busy core."""
WAITING_MAX = 256
"""Beyond this, uploads are told to come back; results of nodes always wait."""

Info = TypeVar("Info", CircuitInfo, WitnessInfo)

INTERNAL = 6
"""Exit code for a failure of our own, as everywhere."""


class VerifierBusy(Exception):
    """Too many checks are waiting; nothing was looked at."""


class Verifier:
    """Asks children, few at a time.

    Attributes:
        outcomes: how many checks of a kind ended how, for the metrics: (kind, outcome) -> count.
    """

    def __init__(
        self, limits: Limits | None = None, *, children_max: int = CHILDREN_MAX, allow_unsafe: bool = False
    ) -> None:
        self.limits = limits or Limits()
        self._allow_unsafe = allow_unsafe
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.waiting = 0
        self._turns = asyncio.Semaphore(children_max)

    async def verify_proof(self, verification_key: bytes, wtns_path: Path, n_public: int, proof: bytes) -> Verdict:
        """Check ``proof`` (proof.json, as a node sent it) against the registered key and the submitted witness."""
        answer = await self._ask(VerifyProof(verification_key, str(wtns_path), n_public, proof))
        if isinstance(answer, Verdict):
            self._count("proof", "ok" if answer.ok else "refused")
            return answer
        self._count("proof", "failed")
        return Verdict(ok=False, detail=_sentence(answer), hub_fault=True)

    async def inspect_circuit(self, zkey_path: Path) -> CircuitInfo | FileProblem:
        """Read a proving key, whole, and derive its verification key.

        Raises:
            VerifierBusy: too many checks are waiting.
        """
        self._refuse_when_busy()
        answer = await self._ask(InspectCircuit(str(zkey_path), self._allow_unsafe))
        if isinstance(answer, CircuitInfo) and answer.n_public > PUBLIC_INPUTS_MAX:
            answer = FileProblem(
                3,
                f"{zkey_path.name}: nPublic is {answer.n_public}; this hub takes at most {PUBLIC_INPUTS_MAX}",
            )
        return self._inspected("circuit", answer, CircuitInfo)

    async def inspect_witness(self, zkey_path: Path, wtns_path: Path) -> WitnessInfo | FileProblem:
        """Read a witness, and check that it belongs to the proving key.

        Raises:
            VerifierBusy: too many checks are waiting.
        """
        self._refuse_when_busy()
        answer = await self._ask(InspectWitness(str(zkey_path), str(wtns_path)))
        return self._inspected("witness", answer, WitnessInfo)

    def _inspected(self, kind: str, answer: Answer, wanted: type[Info]) -> Info | FileProblem:
        if isinstance(answer, wanted):
            self._count(kind, "ok")
            return answer
        problem = answer if isinstance(answer, FileProblem) else FileProblem(INTERNAL, _sentence(answer))
        self._count(kind, "failed" if problem.code == INTERNAL else "refused")
        return problem

    def _count(self, kind: str, outcome: str) -> None:
        self.outcomes[kind, outcome] += 1

    def _refuse_when_busy(self) -> None:
        if self.waiting >= WAITING_MAX:
            raise VerifierBusy(f"{self.waiting} files wait to be checked already; send this one again in a minute")

    async def _ask(self, question: Question) -> Answer:
        self.waiting += 1
        try:
            async with self._turns:
                return await ask(question, self.limits)
        finally:
            self.waiting -= 1


def _sentence(answer: Answer) -> str:
    """Why there is no answer of the kind asked for."""
    return answer.detail if isinstance(answer, FileProblem) else f"the check answered {type(answer).__name__}"


async def ask(question: Question, limits: Limits) -> Answer:
    """One child, one question. Never raises for what the child does: that is a `FileProblem` of code 6."""
    try:
        request = msgspec.json.encode(Request(question, limits, await asyncio.to_thread(_mapped_bytes, question)))
    except OSError as error:
        return FileProblem(INTERNAL, f"the hub cannot read its own file {error.filename}: {error.strerror}")
    said, complaint = Bounded(2 * ANSWER_BYTES_MAX), Bounded(STDERR_BYTES_MAX)
    checking = child(ARGV, said.add, complaint.add, env={}, stdin=request)
    try:
        async with asyncio.timeout(limits.deadline_s), checking as running:
            status = await running.wait()
            await running.heard(limits.deadline_s)
    except TimeoutError:
        return FileProblem(
            INTERNAL, f"the check did not end within its deadline of {limits.deadline_s:g} s and was stopped"
        )
    except OSError as error:
        return FileProblem(INTERNAL, f"the check could not be started: {error.strerror}")
    if status != 0:
        log.warning("a check failed", status=status, stderr=complaint.kept().decode(errors="replace"))
        return FileProblem(INTERNAL, _why(status, limits))
    try:
        return msgspec.json.decode(said.kept(), type=Answer)
    except msgspec.MsgspecError as error:
        return FileProblem(INTERNAL, f"the check's answer of {said.total_bytes} bytes cannot be read: {error}")


def _mapped_bytes(question: Question) -> int:
    paths = [getattr(question, name) for name in ("zkey", "wtns") if hasattr(question, name)]
    return sum(Path(path).stat().st_size for path in paths)


def _why(status: int, limits: Limits) -> str:
    """A child's exit status as a sentence."""
    if status == OUT_OF_MEMORY:
        return f"the check ran out of its {limits.memory_bytes} bytes of memory"
    if status == -signal.SIGXCPU:
        return f"the check used up its {limits.cpu_s} s of processor time"
    if status < 0:
        return f"the check was killed by signal {-status} ({signal.strsignal(-status)})"
    return f"the check failed with exit status {status}; the hub's log has its words"
