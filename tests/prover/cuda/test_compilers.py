"""Compilers of kernels: which one is taken, what they make, what is kept of it, and every way in which that fails."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from prover.backends import compilers as finding
from prover.backends.compilers import Compiler, Target, ask_nvcc, ask_nvrtc, choose, package_for
from prover.backends.cubins import MANIFEST, CompiledKernels, compiled, prebuild, prebuilt_image
from prover.errors import DeviceError
from tests.prover.cuda.simulated import H200

NEW = Compiler("nvcc", "/toolkit/bin/nvcc", (13, 0), (75, 80, 86, 89, 90, 100, 120))
OLD = Compiler("nvrtc", "/packages/libnvrtc.so.12", (12, 4), (50, 70, 75, 80, 86, 89, 90))


@pytest.mark.parametrize(
    ("capability", "driver_cuda", "expected"),
    [
        ((9, 0), (13, 1), Target(NEW, "cubin", 90)),
        ((12, 0), (13, 0), Target(NEW, "cubin", 120)),
        ((9, 0), (12, 8), Target(OLD, "cubin", 90)),
        ((9, 0), (12, 2), Target(OLD, "cubin", 90)),  # within a major version an older driver runs newer cubins
        ((7, 0), (13, 0), Target(OLD, "cubin", 70)),
        ((12, 1), (13, 0), Target(NEW, "ptx", 120)),
        ((12, 0), (12, 8), Target(OLD, "ptx", 90)),
    ],
    ids=str,
)
def test_the_newest_compiler_that_suits(
    capability: tuple[int, int], driver_cuda: tuple[int, int], expected: Target
) -> None:
    assert choose([OLD, NEW], capability, driver_cuda) == expected


@pytest.mark.parametrize(
    ("compilers", "capability", "driver_cuda", "sentence"),
    [
        ([], (9, 0), (13, 0), r"no CUDA compiler on this machine: .* install one: .* nvidia-cuda-nvrtc==13\.0\.\*$"),
        ([], (9, 0), (12, 4), r"install one: .* -m pip install nvidia-cuda-nvrtc-cu12$"),
        (
            [NEW],
            (9, 0),
            (12, 4),
            r"driver knows CUDA 12\.4 and the compiler is of CUDA 13\.0: update the driver to 580 or",
        ),
        (
            [OLD],
            (12, 0),
            (12, 2),
            r"driver knows CUDA 12\.2 and the compiler is of CUDA 12\.4: update the driver to 525",
        ),
        ([NEW, OLD], (6, 1), (13, 0), r"compute capability is 6\.1; the kernels need 7\.0: use --device host"),
    ],
    ids=["none", "none, old driver", "too new", "PTX too new", "old card"],
)
def test_what_does_not_suit_names_both_versions(
    compilers: list[Compiler], capability: tuple[int, int], driver_cuda: tuple[int, int], sentence: str
) -> None:
    with pytest.raises(DeviceError, match=sentence) as caught:
        choose(compilers, capability, driver_cuda)
    assert caught.value.exit_code == 5


def test_packages_suit_the_driver() -> None:
    assert package_for((13, 2)) == "nvidia-cuda-nvrtc==13.2.*"
    assert package_for((12, 9)) == "nvidia-cuda-nvrtc-cu12"


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
    path.chmod(0o755)
    return path


ANSWERS = """case "$*" in
*--version*) echo "Cuda compilation tools, release 12.6, V12.6.20";;
*--list-gpu-arch*) echo compute_80; echo compute_90;;
*) exit 1;;
esac"""


def test_compilers_are_asked_who_they_are(tmp_path: Path) -> None:
    nvcc = script(tmp_path / "nvcc", ANSWERS)
    assert ask_nvcc(nvcc) == Compiler("nvcc", str(nvcc), (12, 6), (80, 90))
    assert ask_nvcc(script(tmp_path / "other", "echo hello")) is None
    assert ask_nvcc(tmp_path / "absent") is None
    assert ask_nvrtc(tmp_path / "absent.so") is None


def test_they_are_found_in_the_toolkit_on_the_path_and_in_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "home/bin/nvcc", tmp_path / "path/nvcc", tmp_path / "site/nvidia/cu13/bin/nvcc"]
    for place in places:
        script(place, ANSWERS)
    (tmp_path / "again").mkdir()
    (tmp_path / "again/nvcc").symlink_to(places[1])
    monkeypatch.setattr(finding, "TOOLKITS", ())
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path / "site"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}/again:{tmp_path}/path:/usr/bin:/bin")
    finding.find_compilers.cache_clear()
    try:
        found = [Path(compiler.path).resolve() for compiler in finding.find_compilers()]
    finally:
        finding.find_compilers.cache_clear()
    assert found == places


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "provewire" / "cuda"


def fake(tmp_path: Path, body: str) -> Target:
    """A compiler that does what a shell says; its arguments are in ``$*``, the output's name comes last."""
    path = script(tmp_path / "nvcc", f'for last; do :; done; echo "$*" >> {tmp_path}/asked; {body}')
    return Target(Compiler("nvcc", str(path), (13, 0), (90,)), "cubin", 90)


def test_what_was_compiled_is_kept(tmp_path: Path, cache: Path) -> None:
    target = fake(tmp_path, 'printf image > "$last"')
    path = compiled("counters", target)
    assert path.read_bytes() == b"image"
    assert path.parent == cache
    assert (cache.stat().st_mode & 0o777) == 0o700
    assert re.fullmatch(r"counters-sm_90-[0-9a-f]{32}\.cubin", path.name)
    assert compiled("counters", target) == path
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 1
    assert asked[0].startswith("-cubin -arch=sm_90 -O3 -std=c++17")
    others = [
        replace(target, architecture=80),
        replace(target, form="ptx"),
        replace(target, compiler=replace(target.compiler, version=(13, 1))),
    ]
    assert len({compiled("counters", other) for other in others} | {path}) == 4
    assert "-ptx -arch=compute_90" in (tmp_path / "asked").read_text()


def test_a_cache_that_others_can_write_is_refused(tmp_path: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    with pytest.raises(DeviceError, match="can be written by others, so what is built there cannot be trusted"):
        compiled("counters", fake(tmp_path, "exit 0"))


def test_the_compilers_first_error_is_told(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(DeviceError, match=r"could not compile the kernels \(exit code 2\): k.cu\(3\): error: broken$"):
        compiled("counters", fake(tmp_path, 'echo "k.cu(3): error: broken" >&2; exit 2'))
    assert not [path for path in cache.iterdir() if path.suffix != ".lock"]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="there is no nvcc on this machine")
def test_a_real_compiler(cache: Path) -> None:
    nvcc = ask_nvcc(Path(str(shutil.which("nvcc"))))
    assert nvcc is not None
    path = compiled("counters", choose([nvcc], (9, 0), nvcc.version))
    image = path.read_bytes()
    assert image.startswith(b"\x7fELF")
    for name in (b"scan_tiles", b"scan_add", b"bucket_count", b"bucket_scatter"):
        assert name in image
    assert path.parent == cache


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_run_time_compiler_of_cuda_12_from_its_package(tmp_path: Path, cache: Path) -> None:
    """For drivers that are too old for CUDA 13; it needs no C++ compiler and no headers."""
    package = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path / "site")]
    subprocess.run([*package, package_for((12, 9))], check=True)
    (library,) = (tmp_path / "site").glob("nvidia/*/lib/libnvrtc.so.12")
    compiler = ask_nvrtc(library)
    assert compiler is not None
    assert compiler.version[0] == 12
    for file in ("counters", "bn254_scalar"):
        target = choose([compiler], (9, 0), (12, 4))
        assert compiled(file, target).read_bytes().startswith(b"\x7fELF")
    assert b".target sm_90" in compiled("counters", replace(target, form="ptx")).read_bytes()
    assert cache.exists()


def test_prebuilt_kernels_are_honoured_or_refused(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "prebuilt"
    target = fake(tmp_path, 'printf image > "$last"')
    prebuild(folder, ("counters",), [target, replace(target, architecture=80, form="ptx")])
    assert cache.exists()
    assert CompiledKernels(folder).image("counters", H200) == b"image"
    CompiledKernels(folder).check(H200)
    monkeypatch.setenv("PROVEWIRE_KERNELS", str(folder))
    assert CompiledKernels().image("counters", replace(H200, capability=(8, 6))) == b"image", "PTX of sm_80"
    with pytest.raises(DeviceError, match="has no kernels counters for sm_75, only for sm_80, sm_90"):
        prebuilt_image(folder, "counters", replace(H200, capability=(7, 5)))
    with pytest.raises(DeviceError, match=r"are of CUDA 13\.0 and the driver knows CUDA 12\.4: update the driver"):
        CompiledKernels().check(replace(H200, driver_cuda=(12, 4)))
    (folder / "counters.fatbin").write_bytes(b"fat")
    assert prebuilt_image(folder, "counters", replace(H200, capability=(7, 5))) == b"fat"
    said = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**said, "sources": "0" * 64}))
    with pytest.raises(DeviceError, match="of other sources than this version's"):
        CompiledKernels().image("counters", H200)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(DeviceError, match="is no manifest of prebuilt kernels"):
        CompiledKernels().image("counters", H200)
