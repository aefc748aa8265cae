"""The CPU's functions in other builds, over proofs of every shape and over damaged files: each builds for minutes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.curves import CURVES, Curve

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 2400

pytestmark = [pytest.mark.long, pytest.mark.compiler, pytest.mark.timeout(DEADLINE_S + 60)]
every_curve = pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)


def drive(folder: Path, curve: Curve, flags: str, **variables: str) -> None:
    """Build with flags that come last, and so count, and run everything."""
    (folder / "files").mkdir()
    wrapper = folder / "compiler"
    wrapper.write_text(f'#!/bin/sh\nexec g++ "$@" {flags}\n')
    wrapper.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-m", "tests.prover.every_path", str(folder / "files"), curve.ident],
        cwd=ROOT,
        env={**os.environ, "CXX": str(wrapper), "XDG_CACHE_HOME": str(folder / "cache"), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert done.stdout.endswith("nothing was wrong\n")


@every_curve
def test_row_3_no_access_is_wrong_under_the_sanitizers(tmp_path: Path, curve: Curve) -> None:
    library = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    drive(
        tmp_path,
        curve,
        # Not whether every address is null or aligned: that alone takes the compiler a quarter of an hour.
        "-O1 -g1 -fsanitize=address,undefined -fno-sanitize=null,alignment,object-size,vptr -fno-sanitize-recover=all",
        LD_PRELOAD=library.stdout.strip(),
        # The interpreter's own allocations live until its end, and are no leaks of ours.
        ASAN_OPTIONS="detect_leaks=0:halt_on_error=1",
        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
        PYTHONMALLOC="malloc",
    )


@every_curve
def test_row_29_the_path_of_other_processors(tmp_path: Path, curve: Curve) -> None:
    """Without AVX-512 and carry chains, as on any other architecture: plain C++."""
    drive(tmp_path, curve, "-mno-avx512f -mno-adx -mno-bmi2 -mno-avx2 -mno-avx")
