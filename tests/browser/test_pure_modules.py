"""The page's pure modules, by vitest: layouts, filters, charts' data, texts made harmless."""

import subprocess

import pytest

from tests.e2e.rig import ROOT

VITEST = ROOT / "node_modules" / ".bin" / "vitest"


@pytest.mark.skipif(not VITEST.exists(), reason="npm is missing: apt-get install nodejs npm")
def test_the_pages_pure_modules() -> None:
    argv = [str(VITEST), "run", "--root", "web"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
