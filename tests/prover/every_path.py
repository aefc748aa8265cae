"""What `test_builds` runs over builds of their own: proofs and keys of every shape, and damaged files.

    python -m tests.prover.every_path FOLDER [CURVE...]

prints a line for each part. Under a sanitizer, a wrong access ends the process at once and says where.
"""

import os
import sys
from collections import Counter
from pathlib import Path
from random import Random

from kernels.curves import CURVES, Curve
from prover.backends import build as building
from prover.backends.host import HostBackend
from prover.check import check_points, check_witness
from prover.formats.r1cs import R1cs
from prover.formats.snarkjson import vkey_from_zkey
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import Tuning, prove
from prover.setup import setup_unsafe
from prover.verify import verify
from tests.prover.mutation import KINDS, Bundle, flips, structural
from tests.prover.r1cs_writer import r1cs_file, wtns_file
from tests.prover.shapes import shapes

BUILD_DEADLINE_S = 2400
"""Compilers take longer over such builds than over any that a user waits for."""
THREADS = 3
"""More than the machine may have cores: what they share is shared."""


def prove_shapes(folder: Path, curve: Curve, backend: HostBackend) -> None:
    """Set up, check, prove and verify every shape, with windows of several sizes."""
    for name, (circuit, values) in shapes(curve, log2_chain=8).items():
        for path, data in (("c.r1cs", r1cs_file(circuit, curve)), ("w.wtns", wtns_file(values, curve))):
            (folder / path).unlink(missing_ok=True)
            (folder / path).write_bytes(data)
        with R1cs.open(folder / "c.r1cs") as r1cs, Witness.open(folder / "w.wtns") as witness:
            check_witness(r1cs, witness)
            setup_unsafe(r1cs, folder / "k.zkey", backend)
            with ZKey.open(folder / "k.zkey") as key:
                check_points(key, THREADS)
                for window_bits in (None, 4, 16):
                    result = prove(key, witness, backend, tuning=Tuning(window_bits=window_bits))
                    if not verify(vkey_from_zkey(key), result.public, result.proof):
                        raise AssertionError(name)
    print(f"{curve.ident}: every shape proves", flush=True)  # noqa: T201 - a script prints


def damage(folder: Path, curve: Curve, backend: HostBackend) -> None:
    """Prove with damaged files."""
    bundle = Bundle.make(folder, curve, backend)
    chance = Random(curve.ident)
    for kind in KINDS:
        good = bundle.files[kind]
        seen = Counter(bundle.outcome(kind, data, backend) for _, data in structural(kind, good))
        for _ in range(3):
            seen.update(bundle.outcome(kind, data, backend) for _, data in flips(good, 97, chance.randrange(12, 97)))
        print(f"{curve.ident}: {kind} damaged: {dict(seen)}", flush=True)  # noqa: T201


def main(folder: Path, names: list[str]) -> None:
    """Do all of it for some curves."""
    with HostBackend(threads=THREADS, files=("counters",)) as backend:
        for curve in CURVES:
            if curve.ident in names or not names:
                prove_shapes(folder, curve, backend)
                damage(folder, curve, backend)


if __name__ == "__main__":
    building.BUILD_DEADLINE_S = BUILD_DEADLINE_S  # type: ignore[misc]
    # This process has the sanitizer's library loaded; a compiler that it starts would take many times as long with it.
    os.environ.pop("LD_PRELOAD", None)
    main(Path(sys.argv[1]), sys.argv[2:])
    print("nothing was wrong", flush=True)  # noqa: T201
