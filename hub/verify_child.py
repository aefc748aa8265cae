"""The process that reads what strangers sent: keys, witnesses, proofs. Run as ``python -m hub.verify_child``.

It takes one JSON object on stdin, limits itself (processor time, memory, no file may grow, no further process), and
answers with one line of JSON on stdout. A fault of a file is an answer; anything else is an exit, which `hub.verify`
turns into a sentence. It keeps nothing and writes no file.
"""

import errno
import resource
import sys
from pathlib import Path
from typing import assert_never

import msgspec

REQUEST_BYTES_MAX = 2 * 1024 * 1024
"""A request is a few paths and numbers, at most a proof (64 KiB) and a verification key (below 1 MiB), in base64."""
OPEN_FILES_MAX = 64
OUT_OF_MEMORY = 70
"""Exit status; told apart from other failures because the remedy differs."""


class Limits(msgspec.Struct, frozen=True):
    """What one child may use."""

    cpu_s: int = 60
    memory_bytes: int = 1024 * 1024 * 1024
    """Of address space beyond the files it maps."""
    deadline_s: float = 120.0
    """From the child's start to its answer, by the hub's clock."""


class InspectCircuit(msgspec.Struct, frozen=True, tag="inspect_circuit"):
    """Is this a proving key of ours?"""

    zkey: str
    allow_unsafe: bool = False


class InspectWitness(msgspec.Struct, frozen=True, tag="inspect_witness"):
    """Does this witness belong to this proving key, and what are its public inputs?"""

    zkey: str
    wtns: str


class VerifyProof(msgspec.Struct, frozen=True, tag="verify_proof"):
    """Does the proof verify against the key, for the public inputs that stand in the witness?"""

    verification_key: bytes
    wtns: str
    n_public: int
    proof: bytes


Question = InspectCircuit | InspectWitness | VerifyProof


class Request(msgspec.Struct, frozen=True):
    """One question under its limits."""

    question: Question
    limits: Limits
    mapped_bytes: int
    """Together of the files the question names: they are mapped, so they count as address space."""


class CircuitInfo(msgspec.Struct, frozen=True, tag="circuit"):
    """What stands in a proving key."""

    curve: str
    n_vars: int
    n_public: int
    n_coefficients: int
    domain_size: int
    vkey_json: str
    """The verification key, byte for byte as snarkjs exports it."""
    contributions: int | None = None
    """As the file says; None where it does not say."""


class WitnessInfo(msgspec.Struct, frozen=True, tag="witness"):
    """What stands in a witness that belongs to its key."""

    n_witness: int
    public_json: str
    """The public inputs, byte for byte as snarkjs writes public.json."""


class Verdict(msgspec.Struct, frozen=True, tag="verdict"):
    """Whether a proof may leave the hub."""

    ok: bool
    detail: str = ""
    """Why not, in one sentence."""
    hub_fault: bool = False
    """The check itself failed (deadline, memory, a damaged file of the hub's): no node is to blame; try again."""
    proof_json: str = ""
    """A verified proof, byte for byte as snarkjs writes proof.json, whatever way the node wrote it."""
    public_json: str = ""
    """The public inputs it was verified for, read from the witness, byte for byte as snarkjs writes public.json."""


class FileProblem(msgspec.Struct, frozen=True, tag="problem"):
    """A file is at fault."""

    code: int
    """2 malformed, 3 files that do not belong together; above that the hub itself failed."""
    detail: str


Answer = CircuitInfo | WitnessInfo | Verdict | FileProblem


def limit_self(limits: Limits, mapped_bytes: int) -> None:
    """Give up, for good, what answering does not need."""
    wanted = {
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_AS: limits.memory_bytes + mapped_bytes,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: OPEN_FILES_MAX,
        resource.RLIMIT_NPROC: 0,  # no fork; does not bind root, who is not meant to run a hub
    }
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # At the soft limit of processor time comes SIGXCPU, which names the cause; at the hard one a nameless SIGKILL.
        resource.setrlimit(kind, (soft, soft + 1 if kind == resource.RLIMIT_CPU else soft))


def answer(question: Question) -> Answer:
    """Read the files and say what they are."""
    # Imported here: the formats' code itself runs under the limits too.
    from prover.errors import MalformedFile, Mismatch  # noqa: PLC0415 - see above

    try:
        match question:
            case InspectCircuit():
                return _inspect_circuit(question)
            case InspectWitness():
                return _inspect_witness(question)
            case VerifyProof():
                return _verify_proof(question)
            case _:  # pragma: no cover
                assert_never(question)
    except (MalformedFile, Mismatch) as error:
        return FileProblem(error.exit_code, _by_digest(question, str(error)))


def _by_digest(question: Question, sentence: str) -> str:
    """The sentence with each file named as its sender knows it, not by its place on the hub's disk."""
    from prover.errors import printable  # noqa: PLC0415 - under the limits

    for kind in ("zkey", "wtns"):
        if path := getattr(question, kind, ""):
            sentence = sentence.replace(printable(path), f"{Path(path).name}.{kind}")
    return sentence


def _inspect_circuit(question: InspectCircuit) -> CircuitInfo:
    from prover.errors import Mismatch, printable  # noqa: PLC0415 - under the limits
    from prover.formats import snarkjson, zkey  # noqa: PLC0415 - under the limits

    with zkey.ZKey.open(Path(question.zkey)) as key:
        if key.is_unsafe and not question.allow_unsafe:
            raise Mismatch(
                f"{printable(question.zkey)}: section 10 (contributions): the key was made by setup --unsafe, and "
                "whoever made it can forge proofs; take a key of a ceremony, or start the hub with --allow-unsafe"
            )
        return CircuitInfo(
            curve=key.curve.name,
            n_vars=key.n_vars,
            n_public=key.n_public,
            n_coefficients=key.n_coefficients,
            domain_size=key.domain_size,
            vkey_json=snarkjson.vkey_to_json(snarkjson.vkey_from_zkey(key)),
            contributions=key.contributions(),
        )


def _inspect_witness(question: InspectWitness) -> WitnessInfo:
    from prover.formats import snarkjson, wtns, zkey  # noqa: PLC0415 - under the limits

    with zkey.ZKey.open(Path(question.zkey)) as key, wtns.Witness.open(Path(question.wtns)) as witness:
        wtns.check_pair(key, witness)
        return WitnessInfo(witness.n_witness, snarkjson.public_to_json(witness.public(key.n_public)))


def _verify_proof(question: VerifyProof) -> Verdict:
    from prover import verify  # noqa: PLC0415 - under the limits
    from prover.errors import MalformedFile, Mismatch  # noqa: PLC0415 - under the limits
    from prover.formats import snarkjson, wtns  # noqa: PLC0415 - under the limits

    vkey = snarkjson.vkey_from_json(question.verification_key)
    with wtns.Witness.open(Path(question.wtns)) as witness:
        public = witness.public(question.n_public)
    try:
        proof = snarkjson.proof_from_json(question.proof)
    except (MalformedFile, Mismatch) as error:
        return Verdict(ok=False, detail=f"the node's proof cannot be read: {error}")
    if (why := verify.why_rejected(vkey, public, proof)) is not None:
        return Verdict(ok=False, detail=f"the node's proof does not verify for this circuit and witness: {why}")
    return Verdict(ok=True, proof_json=snarkjson.proof_to_json(proof), public_json=snarkjson.public_to_json(public))


def _starved(error: BaseException | None) -> bool:
    """Whether memory was refused, to Python itself or to whatever it was just doing."""
    while error is not None:
        refused = isinstance(error, OSError) and error.errno == errno.ENOMEM
        # The loader of libraries says it in words only.
        if refused or isinstance(error, MemoryError) or "failed to map segment" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def main() -> int:
    """Answer one request."""
    request = msgspec.json.decode(sys.stdin.buffer.read(REQUEST_BYTES_MAX + 1), type=Request)
    limit_self(request.limits, request.mapped_bytes)
    try:
        said = answer(request.question)
    except Exception as error:
        if not _starved(error):
            raise
        return OUT_OF_MEMORY
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
