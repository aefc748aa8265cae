"""``provewire demo`` as the README offers it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tests.e2e.rig import ROOT

DEMO = [sys.executable, "-m", "cli.main", "demo"]


def test_demo_once_leaves_a_proof_that_snarkjs_accepts(tmp_path: Path, snarkjs_accepts: Callable[[Path], bool]) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        [*DEMO, "--once", "--out", str(out)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=150
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["proof.json", "public.json", "verification_key.json"]
    assert str(out / "proof.json") in done.stdout
    assert snarkjs_accepts(out)


def test_demo_without_a_compiler_says_what_to_install(tmp_path: Path) -> None:
    environ = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "CXX": ""}
    done = subprocess.run(
        [*DEMO, "--once", "--out", str(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environ,
    )
    assert done.returncode == 5
    assert done.stderr.startswith("provewire: the host device needs a C++ compiler")
    assert done.stderr.count("\n") == 1


def test_demo_stays_up_with_a_page_until_ctrl_c_and_leaves_no_process(tmp_path: Path) -> None:
    # A temporary folder of its own, by whose name its processes are known; short, because unix sockets lie below.
    folder = tempfile.mkdtemp(prefix="pw-")
    with subprocess.Popen(
        [*DEMO, "--out", str(tmp_path / "out")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": folder},
    ) as demo:
        assert demo.stdout is not None
        lines: list[str] = []
        for line in demo.stdout:
            lines.append(line)
            if "/#/login/" in line:
                break
        link = next(word for line in lines for word in line.split() if "/#/login/" in word)
        address, _, code = link.partition("/#/login/")
        headers = {"Origin": address, "X-Provewire": "1", "Content-Type": "application/json"}
        asked = urllib.request.Request(f"{address}/api/v1/login", json.dumps({"code": code}).encode(), headers)  # noqa: S310 - ours
        with urllib.request.urlopen(asked, timeout=30) as answer:  # noqa: S310 - ours
            assert answer.status == 200
            assert "HttpOnly" in answer.headers["Set-Cookie"]
        for _ in range(2):  # impatient people press it twice, and still nothing may be left behind
            os.kill(demo.pid, signal.SIGINT)
        assert demo.wait(timeout=60) == 0
    left = subprocess.run(["pgrep", "-f", folder], capture_output=True, text=True, check=False)
    assert left.stdout == ""
    assert list(Path(folder).iterdir()) == []
    Path(folder).rmdir()
