"""The CPU's functions built with AddressSanitizer and UBSan, over proofs of every shape and over damaged files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.curves import CURVES, Curve

ROOT = Path(__file__).resolve().parents[2]
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -g1"
BUILD_S, RUN_S = 1500, 900
BUILD = """
from kernels.curves import CURVES
from prover.backends.build import build, build_sources
from prover.native import native_source
build(("counters",))
build_sources((native_source(next(curve for curve in CURVES if curve.ident == "{curve}")),))
"""


@pytest.mark.long
@pytest.mark.compiler
@pytest.mark.timeout(BUILD_S + RUN_S + 60)
@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.ident)
def test_no_access_is_wrong_under_the_sanitizers(tmp_path: Path, curve: Curve) -> None:
    """Built without the sanitizer's library loaded, which would make the compiler many times slower; run with it."""
    library = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    environment = {**os.environ, "CXX": f"g++ {FLAGS}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, "-c", BUILD.format(curve=curve.ident)], cwd=ROOT, env=environment, check=True, timeout=BUILD_S
    )
    (tmp_path / "files").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.prover.sanitized", str(tmp_path / "files"), curve.ident],
        cwd=ROOT,
        env={
            **environment,
            "LD_PRELOAD": library.stdout.strip(),
            # The interpreter's own allocations live until its end, and are no leaks of ours.
            "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:detect_stack_use_after_return=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert done.stdout.endswith("nothing was wrong\n")
