"""Every `__global__` function of the sources runs on the host, and compiles for a GPU."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernels import ROOT
from kernels.curves import CURVES
from kernels.entries import ENTRY_FILES, LAW_FILES, entries
from kernels.generate import PARAMS
from prover import circuits
from prover.backends.base import Scope
from prover.backends.host import HostBackend
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove
from prover.ntt import forward_to_quotient, make_domain
from prover.plan import flat
from tests.kernels.operands import GPU
from tests.prover.toy import MIXED, mixed_witness, setup, wtns

SOURCES = sorted(path for path in ROOT.rglob("*") if path.suffix in {".cu", ".cuh", ".cpp"})
QUICK = ("counters", "bn254_scalar")
"""Entry files that are compiled in seconds; `make cuda` compiles them all."""
FILES = sorted(path.stem for path in (ROOT / "entry").glob("*.cu"))
NAMES = [
    name
    for path in SOURCES
    for name in re.findall(r"__global__\s+(?:\w+\s+)*?void\s+(\w+)", path.read_text(encoding="ascii"))
]
"""Every `__global__` function by its text, found in another way than the prover finds them."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often each entry ran in one proof of each curve, planned as for a GPU, and one launch of each law."""
    runs: dict[str, int] = {}
    folder = tmp_path_factory.mktemp("entries")
    with HostBackend(planned_as=GPU) as backend:
        with ZKey.open(circuits.ZKEY) as zkey, Witness.open(circuits.WITNESS) as witness:
            prove(zkey, witness, backend)
        for curve in CURVES[1:]:
            (folder / "k.zkey").write_bytes(setup(MIXED, curve=curve).file())
            (folder / "w.wtns").write_bytes(wtns(mixed_witness(curve=curve), curve.r).file())
            with ZKey.open(folder / "k.zkey") as zkey, Witness.open(folder / "w.wtns") as witness:
                prove(zkey, witness, backend)
        for curve in CURVES:  # large transforms end with this pass
            with Scope(backend) as scope:
                domain = make_domain(backend, scope, curve, 1, root=curve.fr_root_of_order(1), coset=1)
                forward_to_quotient(backend, curve, domain, scope.allocate(3 * 2 * 32), joined=True)
                for group in ("g1", "g2"):  # of a key that comes again
                    points, sums, out = (scope.allocate(384).address for _ in range(3))
                    backend.launch(f"{curve.ident}_{group}_doublings", flat(1), [points, 1, 1, 1, sums, out])
        runs.update({name: backend.runs(name) for name in entries(ENTRY_FILES)})
    with HostBackend(files=LAW_FILES) as backend:
        with Scope(backend) as scope:
            for name, entry in entries(LAW_FILES).items():
                memory = [scope.allocate(4096).address for _ in entry.parameters[1:-1]]
                backend.launch(name, flat(1), [0, *memory, 1])
        runs.update({name: backend.runs(name) for name in entries(LAW_FILES)})
    return runs


def test_every_file_is_built_somewhere() -> None:
    assert sorted(ENTRY_FILES + LAW_FILES) == FILES


def test_entries_stand_in_entry_files_only() -> None:
    assert sorted(NAMES) == sorted(entries(ENTRY_FILES + LAW_FILES))
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_host_has_run(ran: dict[str, int], name: str) -> None:
    assert ran.get(name, 0) > 0, f"no test makes the host run {name}"


def test_an_entry_that_never_ran_is_noticed() -> None:
    """The counter says zero for what exists and did not run, and for what does not exist."""
    with HostBackend(files=("counters",), flags=("-DLIBRARY_OF_ITS_OWN",)) as backend:
        assert backend.runs("scan_add") == 0
        assert backend.runs("no_such_entry") == 0
        backend.launch("scan_add", flat(1), [0, 0, 0, 1, 1])
        assert backend.runs("scan_add") == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_body_of_an_entry_is_its_phases(name: str) -> None:
    """What an entry does outside of RUN, the host would not do phase by phase."""
    texts = [path.read_text(encoding="ascii") for path in SOURCES]
    bodies = [body for text in texts for body in re.findall(rf"void {name}\([^)]*\) \{{(.*?)\n\}}", text, re.DOTALL)]
    assert len(bodies) == 1
    assert re.fullmatch(r"\s*RUN\([^;]*\);\s*", bodies[0])


def test_barriers_stand_in_the_launcher_only() -> None:
    using = [path.relative_to(ROOT).as_posix() for path in SOURCES if "__syncthreads()" in _code(path)]
    assert using == ["core/launch.cuh"]


def _code(path: Path) -> str:
    return re.sub(r"//[^\n]*", "", path.read_text(encoding="ascii"))


def test_moduli_are_written_once() -> None:
    """Words of a modulus stand in the generated files and nowhere else."""
    long_numbers = [
        (path.name, number)
        for path in SOURCES
        if PARAMS not in path.parents
        for number in re.findall(r"0x[0-9a-f]{16}", _code(path))
    ]
    masks = {"0x5555555555555555", "0x3333333333333333", "0x0f0f0f0f0f0f0f0f"}
    assert {number for _, number in long_numbers} <= masks


@pytest.mark.parametrize(
    "file", [pytest.param(file, marks=[pytest.mark.long] if file not in QUICK else []) for file in FILES]
)
def test_compiles_for_a_gpu(file: str, tmp_path: Path) -> None:
    """To machine code for sm_90, without a warning and without spilled registers where it matters."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is missing: the CUDA toolkit is needed to compile the kernels for a GPU")
    command = [nvcc, "-arch=sm_90", "-std=c++17", "--expt-relaxed-constexpr", "-Werror=all-warnings", "-Xptxas=-v"]
    done = subprocess.run(
        [*command, "-I", str(ROOT), "-cubin", "-o", str(tmp_path / "out.cubin"), str(ROOT / "entry" / f"{file}.cu")],
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert done.returncode == 0, done.stderr
    compiled = re.findall(r"Compiling entry function '(\w+)'", done.stderr)
    assert sorted(compiled) == sorted(entries((file,)))
