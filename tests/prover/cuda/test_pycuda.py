"""PyCUDA itself, and what a node says that has a part of what cards need; the driver is a library of our own."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from kernels.entries import CURVE_FILES, ENTRY_FILES
from prover import circuits
from prover.backends.build import build
from prover.backends.cubins import prebuild
from prover.backends.gpu_setup import headers_of
from tests.prover.cuda.test_compilers import fake

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).parent / "libcuda.c"
PROOF = (circuits.ZKEY, circuits.WITNESS)

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc: apt-get install gcc")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a ``libcuda.so.1``."""
    folder = tmp_path_factory.mktemp("driver")
    command = ["gcc", "-O1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(SOURCE), "-ldl"]
    subprocess.run([*command, "-o", str(folder / "libcuda.so.1")], check=True, capture_output=True)
    return folder


def run(*arguments: str, deadline_s: float = 120, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command; ``more`` are variables of its environment, and ``python`` another interpreter."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA", "PROVEWIRE"))}
    return subprocess.run(
        [more.pop("python", sys.executable), "-m", "cli.main", *arguments],
        cwd=ROOT,
        env={**environment, **more},
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
    )


def prove(folder: Path, *options: str, more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    zkey, witness = map(str, PROOF)
    outputs = ("--proof", str(folder / "proof.json"), "--public", str(folder / "public.json"))
    arguments = ("prove", "--zkey", zkey, "--wtns", witness, *outputs, *options)
    return run(*arguments, deadline_s=120, **(more or {}))


def has_pycuda() -> bool:
    return any((Path(sysconfig.get_path(name)) / "pycuda").exists() for name in ("purelib", "platlib"))


def test_without_a_driver_a_card_is_one_sentence(tmp_path: Path) -> None:
    done = prove(tmp_path, "--device", "cuda:0")
    assert done.returncode == 5
    assert re.fullmatch(r"provewire: there is no NVIDIA driver on this machine .*use --device host\n", done.stderr)
    done = run("gpu-setup")
    assert done.returncode == 5
    assert re.fullmatch(r"provewire: there is no NVIDIA driver .*run this command again\n", done.stderr)


def test_a_driver_without_a_card_is_one_sentence(driver: Path) -> None:
    done = run("gpu-setup", LD_LIBRARY_PATH=str(driver), FAKE_CUDA_DEVICES="0")
    assert done.returncode == 5
    assert re.fullmatch(r"provewire: the NVIDIA driver finds no card: see what nvidia-smi says.*\n", done.stderr)


@pytest.mark.skipif(has_pycuda(), reason="PyCUDA is installed")
def test_a_card_without_pycuda_is_one_sentence_and_auto_falls_back_loudly(tmp_path: Path, driver: Path) -> None:
    done = prove(tmp_path, "--device", "cuda:0", more={"LD_LIBRARY_PATH": str(driver)})
    assert done.returncode == 5
    assert re.fullmatch(r"provewire: the package pycuda is missing, .*; run: \S+ -m cli.main gpu-setup\n", done.stderr)
    assert not (tmp_path / "proof.json").exists()
    done = prove(tmp_path, "--device", "auto", more={"LD_LIBRARY_PATH": str(driver)})
    assert done.returncode == 0, done.stderr
    assert "the card cannot be used, so this machine proves on its CPU: the package pycuda is missing" in done.stderr
    assert (tmp_path / "proof.json").exists()


@pytest.mark.skipif(has_pycuda(), reason="PyCUDA is installed")
@pytest.mark.parametrize(
    ("cards", "why"),
    [
        ("1", "the package pycuda is missing"),
        ("0", "no CUDA-capable device is detected (100)"),
        (None, "no NVIDIA driver"),
    ],
)
def test_a_worker_that_falls_back_knows_why(driver: Path, cards: str | None, why: str) -> None:
    """As its agent is told: with a card, with a driver that finds none, without a driver."""
    script = (
        "from prover.worker.engines import engines; engine = engines()['groth16']('auto'); "
        "engine.open(); print(engine.on_host); engine.close()"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA", "PROVEWIRE"))}
    if cards is not None:
        environment |= {"LD_LIBRARY_PATH": str(driver), "FAKE_CUDA_DEVICES": cards}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert why in done.stdout


def test_headers_are_of_the_drivers_version() -> None:
    assert headers_of((13, 1)) == ["nvidia-cuda-runtime==13.1.*", "nvidia-cuda-profiler-api"]
    assert headers_of((12, 4)) == ["nvidia-cuda-runtime-cu12==12.4.*", "nvidia-cuda-profiler-api-cu12"]


@pytest.fixture(scope="module")
def set_up(tmp_path_factory: pytest.TempPathFactory, driver: Path) -> str:
    """An interpreter that gpu-setup built PyCUDA for: from source, with header packages, over our driver."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    done = run("gpu-setup", "--python", python, deadline_s=1500, LD_LIBRARY_PATH=str(driver))
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("driver: CUDA 13.0, ")
    assert "PyCUDA works" in said
    again = run("gpu-setup", "--python", python, LD_LIBRARY_PATH=str(driver))
    assert again.returncode == 0
    assert "PyCUDA is built from source; this takes some minutes" not in again.stdout
    return python


@pytest.fixture
def on_card(driver: Path, tmp_path: Path, set_up: str) -> dict[str, str]:
    """The environment of a proof on the fake card: kernels that it takes any image for, run by their host build."""
    prebuild(tmp_path / "kernels", ENTRY_FILES, [fake(tmp_path, 'printf image > "$last"')])
    host = build(("counters",)), build(CURVE_FILES["bn254"])
    return {
        "LD_LIBRARY_PATH": str(driver),
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PROVEWIRE_KERNELS": str(tmp_path / "kernels"),
        "FAKE_CUDA_KERNELS": ":".join(map(str, host)),
        "python": set_up,
    }


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_whole_proof_through_pycuda(tmp_path: Path, on_card: dict[str, str]) -> None:
    for device in ("cuda:0", "auto"):
        done = prove(tmp_path, "--device", device, more=on_card)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        (tmp_path / "proof.json").unlink()
    zkey, witness = map(str, PROOF)
    done = run(
        "bench", "--zkey", zkey, "--wtns", witness, "--device", "cuda:0", "--rounds", "2", deadline_s=120, **on_card
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Fake card 0 (sm_90, 4 multiprocessors); bn128, domain 2048")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_what_can_be_missing_on_a_node_with_pycuda(tmp_path: Path, on_card: dict[str, str]) -> None:
    for device, variables, sentence in (
        ("cuda:0", {"FAKE_CUDA_DEVICES": "0"}, "cuda:0: the NVIDIA driver finds no card it can use: cuInit failed"),
        ("cuda:2", {"FAKE_CUDA_DEVICES": "2"}, "cuda:2: there is no such card; there are cuda:0 to cuda:1"),
        ("cuda:0", {"FAKE_CUDA_VERSION": "12040"}, "of CUDA 13.0 and the driver knows CUDA 12.4: update the driver"),
        (
            "cuda:0",
            {"FAKE_CUDA_KERNELS": ""},
            "cuda:0: the kernel bn254_powers failed in the stage key: function: cuModul",
        ),
    ):
        done = prove(tmp_path, "--device", device, more={**on_card, **variables})
        assert done.returncode == 5, done.stderr
        assert done.stderr.count("\n") == 1
        assert sentence in done.stderr
