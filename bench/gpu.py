"""What a card does in a second: products, transforms, multi-exponentiations, whole proofs, and how near its limits.

``python -m bench.gpu`` prints one JSON line for each measurement. Times are wall time from the first call to the end of
the card's last work, the median of several rounds; a key is resident unless it says cold. Above 2^18 points and keys
are synthetic.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from bench.circuits import write_circuit
from bench.synthetic import SyntheticKey, SyntheticWitness, random_elements
from kernels import ROOT
from kernels.curves import CURVES, Curve
from prover.backends import open_backend
from prover.backends.base import Backend, Buffer, Scope
from prover.backends.cache import compile_checked
from prover.backends.compilers import choose, find_compilers
from prover.backends.cubins import command_of
from prover.backends.device import DeviceBackend
from prover.backends.loading import PLAIN_SHARED_BYTES
from prover.device_plan import Sum, scratch_bytes
from prover.device_proof import KernelComputation
from prover.formats.strategy import SNARKJS, ProvingKey
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import PHASES, Tuning, prove
from prover.msm import GroupName, Points, multi_exponentiate, point_bytes
from prover.multiples import multiply
from prover.ntt import forward, inverse_to_coset, make_domain
from prover.plan import ADD_AFFINE_PRODUCTS, ELEMENT_BYTES, choose_window, plan_msm

ROUNDS = 10
SETUP_LOG2_MAX = 18
"""Above this a setup takes longer than a lent card's time."""
CHAIN = 4096
"""Products of one thread's chain."""
COMPILE_S = 300
NTT_VECTORS = 3
MULTIPLES_MAX = 16
MULTIPLIED_BYTES = 1 << 28
"""Memory for sums while multiples are computed."""
WITHOUT_MULTIPLES = Tuning(resident=True)

Figures = dict[str, Any]


def measured(backend: Backend, work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median time of some work in milliseconds, after one round that does not count."""
    found = []
    for number in range(rounds + 1):
        backend.finish()
        began_s = time.perf_counter()
        work()
        backend.finish()
        if number:
            found.append((time.perf_counter() - began_s) * 1000)
    return statistics.median(found)


@contextmanager
def extra_kernels(
    backend: DeviceBackend, image: bytes
) -> Iterator[Callable[[str, tuple[int, int], int, tuple[int, ...]], None]]:
    """Let the body launch kernels of an image of ours, by name, grid, threads and arguments."""
    asking, driver = backend.asking, backend.asking.driver
    module = asking.ask("loading the bench's kernels", driver.load, image)

    def launch(name: str, grid: tuple[int, int], threads: int, arguments: tuple[int, ...]) -> None:
        function = asking.ask(f"the kernel {name}", driver.function, module, name, PLAIN_SHARED_BYTES)
        asking.ask(f"the kernel {name}", driver.launch, function, grid, threads, 0, backend.stream, arguments)

    try:
        yield launch
    finally:
        asking.clean_up(driver.synchronize, backend.stream)
        asking.clean_up(driver.unload, module)


def product_rate(backend: DeviceBackend, curve: Curve, image: bytes, rounds: int = ROUNDS) -> Figures:
    """Products of the base field in a second, by a kernel that does nothing else."""
    blocks, threads = 8 * backend.card.multiprocessors, 256
    with Scope(backend) as scope, extra_kernels(backend, image) as launch:
        values = scope.uploaded(random_elements(blocks * threads, curve.n8q))
        arguments = (values.address, CHAIN)
        took_ms = measured(backend, lambda: launch(f"rate_{curve.ident}", (blocks, 1), threads, arguments), rounds)
    products = blocks * threads * CHAIN
    return {"what": "products", "curve": curve.name, "ms": took_ms, "giga_products_s": products / took_ms / 1e6}


def rate_image(backend: DeviceBackend) -> bytes:
    """Compile the kernel that multiplies."""
    target = choose(find_compilers(), backend.card.capability, backend.card.driver_cuda)
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "rate"
        compile_checked(command_of(target).line(ROOT.parent / "bench" / "rate.cu", output), Path(name), COMPILE_S)
        return output.read_bytes()


def transforms(backend: Backend, curve: Curve, log2: int, rounds: int = ROUNDS) -> Figures:
    """Three inverse and three forward transforms, as a proof has them."""
    size = (1 << log2) * ELEMENT_BYTES
    with Scope(backend) as scope:
        root, coset = SNARKJS.root(curve, log2), SNARKJS.coset(curve, log2)
        domain = make_domain(backend, scope, curve, log2, root=root, coset=coset)
        data = scope.uploaded(random_elements(NTT_VECTORS << log2, ELEMENT_BYTES))

        def both() -> None:
            inverse_to_coset(backend, curve, domain, data, NTT_VECTORS)
            forward(backend, curve, domain, data, NTT_VECTORS)

        took_ms = measured(backend, both, rounds)
    products = 2 * NTT_VECTORS * (log2 << (log2 - 1))
    return {
        "what": "six transforms",
        "curve": curve.name,
        "log2": log2,
        "ms": took_ms,
        "giga_products_s": products / took_ms / 1e6,
        "gigabytes": 2 * NTT_VECTORS * 2 * size / 1e9,
    }


def multi_exponentiation(
    backend: Backend,
    curve: Curve,
    log2: int,
    group: GroupName = "g1",
    rounds: int = ROUNDS,
    *,
    multiples_max: int = 1,
) -> Figures:
    """One sum of full-width scalars times resident points, or with up to so many multiples of each."""
    count, size, bits = 1 << log2, point_bytes(curve, group), curve.r.bit_length()
    window_bits, multiples = choose_window(count, bits, multiples_max)
    plan = plan_msm(count, bits, backend.traits(), window_bits=window_bits, multiples=multiples)
    with Scope(backend) as scope:
        points: Buffer = scope.uploaded(random_elements(count * size // curve.n8q, curve.n8q))
        multiples_ms = 0.0
        if multiples > 1:
            table = scope.allocate(count * multiples * size)
            backend.finish()
            began_s = time.perf_counter()
            multiply(backend, curve, group, plan, points.address, table.address, MULTIPLIED_BYTES)
            backend.finish()
            multiples_ms = (time.perf_counter() - began_s) * 1000
            points = table
        scalars = scope.uploaded(random_elements(count, curve.n8r))
        out = scope.allocate(size)
        target = Points(group, points.address, out.address)
        memory = backend.reserve(scratch_bytes(plan, Sum("", count, (size,)).point_bytes), "a sum")
        try:

            def once() -> None:
                with backend.within(memory):
                    multi_exponentiate(
                        backend, curve, plan, scalars=scalars.address, scalar_of_point=0, targets=[target]
                    )

            took_ms = measured(backend, once, rounds)
        finally:
            memory.close()
    products = count * plan.windows * ADD_AFFINE_PRODUCTS
    return {
        "what": f"sum in {group}",
        "curve": curve.name,
        "log2": log2,
        "window_bits": plan.window_bits,
        "multiples": plan.multiples,
        "multiples_ms": multiples_ms,
        "ms": took_ms,
        "giga_products_s": products / took_ms / 1e6,
    }


def proofs(backend: Backend, curve: Curve, log2: int, *, bits: bool = False, rounds: int = ROUNDS) -> Figures:
    """Whole proofs that verify: the first with the key on the disk, then with it on the card, then with multiples."""
    with tempfile.TemporaryDirectory() as name:
        zkey_path, wtns_path = write_circuit(Path(name), curve, log2, bits=bits)
        with ZKey.open(zkey_path) as zkey, Witness.open(wtns_path) as witness:
            began_s = time.perf_counter()
            prove(zkey, witness, backend)
            cold_ms = (time.perf_counter() - began_s) * 1000
            plain_ms = measured(backend, lambda: prove(zkey, witness, backend, tuning=WITHOUT_MULTIPLES), rounds)
            began_s = time.perf_counter()
            prove(zkey, witness, backend)
            second_ms = (time.perf_counter() - began_s) * 1000
            warm_ms = measured(backend, lambda: prove(zkey, witness, backend), rounds)
            phases = prove(zkey, witness, backend, tuning=Tuning(overlap=False)).timings_ms
    return {
        "what": "bits" if bits else "dense",
        "curve": curve.name,
        "log2": log2,
        "cold_ms": cold_ms,
        "without_multiples_ms": plain_ms,
        "making_multiples_ms": second_ms,
        "ms": warm_ms,
        "proofs_an_hour": 3_600_000 / warm_ms,
        "phases_ms": {phase: round(phases[phase], 3) for phase in PHASES},
    }


def synthetic_proofs(backend: Backend, curve: Curve, log2: int, rounds: int = 3) -> Figures:
    """What a proof takes beside its verification, by a key that no setup made."""
    key = cast(ProvingKey, SyntheticKey(log2, curve))
    witness = cast(Witness, SyntheticWitness(1 << log2, curve))
    stages: dict[str, float] = {}

    def once(*, overlap: bool = True, resident: bool | None = None) -> None:
        phases = StageTimes(stages)
        with KernelComputation(key, backend, phases, overlap=overlap, resident=resident) as computation:
            computation.run(witness, 5, 7)

    plain_ms = measured(backend, lambda: once(resident=True), rounds)
    took_ms = measured(backend, once, rounds)
    once(overlap=False)
    return {
        "what": "synthetic",
        "curve": curve.name,
        "log2": log2,
        "without_multiples_ms": plain_ms,
        "ms": took_ms,
        "stages_ms": dict(stages),
    }


class StageTimes:
    """Takes the time of each stage."""

    def __init__(self, into: dict[str, float]) -> None:
        self._into = into

    def phase(self, name: str) -> "_Stage":
        """Run the body as a stage."""
        return _Stage(name, self._into)


class _Stage:
    def __init__(self, name: str, into: dict[str, float]) -> None:
        self._name = name
        self._into = into

    def __enter__(self) -> Callable[[int, int], None]:
        self._began_s = time.perf_counter()
        return lambda _done, _total: None

    def __exit__(self, *_error: object) -> None:
        self._into[self._name] = round((time.perf_counter() - self._began_s) * 1000, 3)


def figures(backend: DeviceBackend, image: bytes | None, logs: tuple[int, ...]) -> Iterator[Callable[[], Figures]]:
    """Yield measurements to make, the most valuable first."""
    for curve in CURVES:
        if image is not None:
            yield lambda curve=curve: product_rate(backend, curve, image)  # type: ignore[misc]
    for log2 in logs:
        for curve in CURVES:
            for most in (1, MULTIPLES_MAX):
                yield lambda curve=curve, log2=log2, most=most: multi_exponentiation(  # type: ignore[misc]
                    backend, curve, log2, multiples_max=most
                )
            yield lambda curve=curve, log2=log2: transforms(backend, curve, log2)  # type: ignore[misc]
        if log2 <= SETUP_LOG2_MAX:
            yield lambda log2=log2: proofs(backend, CURVES[0], log2)  # type: ignore[misc]
            yield lambda log2=log2: proofs(backend, CURVES[0], log2, bits=True)  # type: ignore[misc]
        else:
            yield lambda log2=log2: synthetic_proofs(backend, CURVES[0], log2)  # type: ignore[misc]


def main() -> int:
    """Measure, and print each figure as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--logs", default="16,18,20,22,24", help="logarithms of the sizes")
    args = parser.parse_args()
    with open_backend(args.device) as backend:
        if not isinstance(backend, DeviceBackend):
            parser.error(f"--device {args.device}: is no card")
        print(json.dumps({"device": backend.description, "cpus": os.cpu_count()}), flush=True)
        for measure in figures(backend, rate_image(backend), tuple(map(int, args.logs.split(",")))):
            print(json.dumps(measure()), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
