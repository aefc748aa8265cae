"""What strangers sent is read in a limited child, and every end of that child is an answer with a sentence."""

import asyncio
import contextlib
import json
import os
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from hub.verify import (
    WAITING_MAX,
    CircuitInfo,
    FileProblem,
    Limits,
    Verdict,
    Verifier,
    VerifierBusy,
    WitnessInfo,
    ask,
)
from hub.verify_child import InspectCircuit
from prover import circuits
from prover.formats.zkey import UNSAFE_NAME
from tests.prover.toy import MIXED, setup

CIRCUITS = Path(circuits.__file__).parent
PROOF = (Path(__file__).parent / "vectors" / "merkle8_proof.json").read_bytes()
KEY = (CIRCUITS / "merkle8_verification_key.json").read_bytes()
ZKEY, WTNS, OTHER = (CIRCUITS / name for name in ("merkle8.zkey", "merkle8.wtns", "merkle8_other.wtns"))
N_PUBLIC = 2


@pytest.fixture
def verifier() -> Verifier:
    return Verifier()


async def verdict(verifier: Verifier, proof: bytes, wtns: Path = WTNS) -> Verdict:
    return await verifier.verify_proof(KEY, wtns, N_PUBLIC, proof)


async def test_a_key_is_told_with_the_verification_key_snarkjs_exports(verifier: Verifier) -> None:
    info = await verifier.inspect_circuit(ZKEY)
    assert isinstance(info, CircuitInfo)
    assert (info.curve, info.n_public, info.domain_size) == ("bn128", 2, 2048)
    assert json.loads(info.vkey_json) == json.loads(KEY)
    assert verifier.outcomes["circuit", "ok"] == 1


async def test_a_witness_is_told_with_its_public_inputs(verifier: Verifier) -> None:
    info = await verifier.inspect_witness(ZKEY, WTNS)
    assert isinstance(info, WitnessInfo)
    assert len(json.loads(info.public_json)) == N_PUBLIC


async def test_a_good_proof_comes_back_in_snarkjs_bytes_however_the_node_wrote_it(verifier: Verifier) -> None:
    answer = await verdict(verifier, json.dumps(json.loads(PROOF)).encode())
    assert answer.ok, answer
    assert answer.proof_json.encode() == PROOF
    assert len(json.loads(answer.public_json)) == N_PUBLIC
    assert verifier.outcomes["proof", "ok"] == 1


async def test_a_proof_of_other_public_inputs_is_refused(verifier: Verifier) -> None:
    answer = await verdict(verifier, PROOF, OTHER)
    assert not answer.ok
    assert not answer.hub_fault
    assert "does not verify" in answer.detail
    assert verifier.outcomes["proof", "refused"] == 1


@pytest.mark.parametrize(
    "proof",
    [
        b"",
        b"\x00" * 64,
        b"[]",
        b"[" * 60_000,
        b'{"pi_a": ["1", "2", "1"]}',
        PROOF.replace(b"4866659493468422694642375157083748955682259956522335549568770161192993890606", b"9" * 4000),
        PROOF.replace(b'"bn128"', b'"bls12381"'),
        PROOF.replace(b"1001732108307565191124391492400217562603637544843689254846259306369596212863", b"1"),
    ],
    ids=["empty", "zeros", "array", "nested", "half", "long numbers", "other curve", "off the curve"],
)
async def test_garbage_in_place_of_a_proof_is_refused_and_is_the_nodes_fault(verifier: Verifier, proof: bytes) -> None:
    answer = await verdict(verifier, proof)
    assert not answer.ok
    assert not answer.hub_fault, answer
    assert answer.detail


@pytest.mark.parametrize("kind", ["truncated", "random", "empty"])
async def test_a_malformed_key_is_named_by_its_digest(verifier: Verifier, tmp_path: Path, kind: str) -> None:
    data = {"truncated": ZKEY.read_bytes()[:5000], "random": os.urandom(5000), "empty": b""}[kind]
    path = tmp_path / "ab12"
    path.write_bytes(data)
    problem = await verifier.inspect_circuit(path)
    assert isinstance(problem, FileProblem)
    assert problem.code == 2
    assert problem.detail.startswith("ab12.zkey: ")
    assert str(tmp_path) not in problem.detail


async def test_a_key_whose_secrets_are_known_is_refused_unless_allowed(tmp_path: Path) -> None:
    sections = setup(MIXED)
    name = UNSAFE_NAME.encode()
    sections.payloads[10] = bytes(64) + struct.pack("<I", 1) + bytes(3 * 64 + 128 + 64)
    sections.payloads[10] += struct.pack("<II", 0, 2 + len(name)) + bytes((1, len(name))) + name
    path = tmp_path / "ab12"
    path.write_bytes(sections.file())
    problem = await Verifier().inspect_circuit(path)
    assert isinstance(problem, FileProblem)
    assert problem.code == 3
    assert problem.detail.startswith("ab12.zkey: section 10 (contributions): the key was made by setup --unsafe")
    assert not isinstance(await Verifier(allow_unsafe=True).inspect_circuit(path), FileProblem)


async def test_a_witness_of_another_circuit_does_not_belong(verifier: Verifier, tmp_path: Path) -> None:
    shorter = bytearray(WTNS.read_bytes()[: -32 * 10])
    n_witness = int.from_bytes(shorter[60:64], "little") - 10
    shorter[60:64] = n_witness.to_bytes(4, "little")
    shorter[68:76] = (n_witness * 32).to_bytes(8, "little")
    path = tmp_path / "short"
    path.write_bytes(shorter)
    problem = await verifier.inspect_witness(ZKEY, path)
    assert isinstance(problem, FileProblem)
    assert problem.code == 3, problem
    assert "short.wtns" in problem.detail


async def test_a_missing_file_of_the_hub_is_the_hubs_fault(verifier: Verifier, tmp_path: Path) -> None:
    answer = await verdict(verifier, PROOF, tmp_path / "gone")
    assert not answer.ok
    assert answer.hub_fault
    assert "cannot read its own file" in answer.detail


async def test_a_child_out_of_memory_is_an_answer() -> None:
    answer = await ask(InspectCircuit(str(ZKEY)), Limits(memory_bytes=0))  # it has more already, and gets no more
    assert isinstance(answer, FileProblem)
    assert (answer.code, answer.detail) == (6, "the check ran out of its 0 bytes of memory")


async def test_a_child_over_its_deadline_is_stopped_and_is_an_answer() -> None:
    answer = await ask(InspectCircuit(str(ZKEY)), Limits(deadline_s=0.02))
    assert isinstance(answer, FileProblem)
    assert answer.code == 6
    assert "deadline of 0.02 s" in answer.detail


def test_a_hub_without_descriptors_says_so_whatever_the_event_loop_says() -> None:
    async def starved() -> object:
        await asyncio.to_thread(ZKEY.stat)  # the pool's first thread is there before
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208 - no disk
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        held = []
        try:
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.open("/dev/null", os.O_RDONLY))
            return await ask(InspectCircuit(str(ZKEY)), Limits())
        finally:
            for descriptor in held:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer = runner.run(starved())
    assert isinstance(answer, FileProblem)
    assert (answer.code, answer.detail) == (
        6,
        "the check could not be started: Too many open files",
    )


async def test_too_many_waiting_uploads_are_sent_away_but_results_never(verifier: Verifier) -> None:
    verifier.waiting = WAITING_MAX
    with pytest.raises(VerifierBusy, match="again in a minute"):
        await verifier.inspect_circuit(ZKEY)
    assert (await verdict(verifier, PROOF)).ok


def limited(code: str, cpu_s: int = 30) -> subprocess.CompletedProcess[str]:
    script = f"from hub.verify_child import Limits, limit_self\nlimit_self(Limits(cpu_s={cpu_s}), 0)\n{code}"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)


def test_the_child_may_not_write_a_file(tmp_path: Path) -> None:
    done = limited(f"open({str(tmp_path / 'file')!r}, 'wb', buffering=0).write(b'x')")
    assert "File too large" in done.stderr
    assert (tmp_path / "file").read_bytes() == b""


def test_the_child_may_not_take_more_memory() -> None:
    assert "MemoryError" in limited("bytearray(2 << 30)").stderr


def test_the_child_may_not_compute_for_ever() -> None:
    assert limited("while True: pass", cpu_s=1).returncode == -signal.SIGXCPU


@pytest.mark.skipif(os.geteuid() == 0, reason="the limit does not bind root")
def test_the_child_may_not_start_another() -> None:
    assert "Resource temporarily unavailable" in limited("import os; os.fork()").stderr
