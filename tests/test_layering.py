"""The edges between the packages, found by importing every module in an interpreter of its package's own."""

import json
import pkgutil
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("agent", "cli", "hub", "kernels", "prover", "wire")

# What a module of each package may load, itself aside; what those load in turn is theirs.
ALLOWED = {
    "wire": set[str](),
    "kernels": set[str](),
    "prover": {"kernels"},
    "agent": {"wire", "prover"},
    "hub": {"wire", "prover", "kernels"},
    "cli": set[str](),  # at import: every subcommand loads its side when it runs
}
ALSO = {"prover.worker": {"wire"}}  # with its submodules
# The hub reads formats and verifies; it never proves. An agent leaves proving to its workers.
FORBIDDEN = {
    "hub": ("prover.groth16", "prover.backends", "prover.worker", "prover.keys", "prover.plan"),
    "agent": ("kernels", "prover.backends", "prover.groth16"),
    "wire": ("aiohttp", "asyncio", "websockets", "sqlalchemy", "socket", "cryptography"),
}

PROBE = """
import builtins, importlib, importlib.util, json, sys
really, edges = builtins.__import__, []
def noting(name, globals=None, locals=None, fromlist=(), level=0):
    module = really(name, globals, locals, fromlist, level)
    if globals and "__name__" in globals:
        whole = importlib.util.resolve_name("." * level + name, globals.get("__package__")) if level else name
        parts = [f"{whole}.{part}" for part in fromlist or () if f"{whole}.{part}" in sys.modules]
        if not parts or len(parts) < len(fromlist):
            parts.append(whole)
        edges.extend((globals["__name__"], part) for part in parts)
    return module
builtins.__import__ = noting
loaded = {}
for group in json.loads(sys.argv[1]):
    for name in group:
        importlib.import_module(name)
    loaded[group[0]] = list(sys.modules)
print(json.dumps([loaded, edges]))
"""


def modules_of(package: str) -> list[str]:
    """Every module of a package but migration scripts, which only Alembic loads."""
    found = import_module(package)
    names = [package, *(m.name for m in pkgutil.walk_packages(found.__path__, package + "."))]
    return [name for name in names if "migrations" not in name and not name.endswith("__main__")]


def also_of(module: str) -> frozenset[str]:
    """What a module may load more than its package."""
    return frozenset(ALSO.get(".".join(module.split(".")[:2]), ()))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_of_a_package_keeps_to_its_edges_and_imports_by_itself(package: str) -> None:
    modules = sorted(modules_of(package), key=lambda name: len(also_of(name)))
    groups = [list(group) for _, group in groupby(modules, also_of)]
    argv = [sys.executable, "-c", PROBE, json.dumps(groups)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=170)
    assert done.returncode == 0, done.stderr
    loaded_after, edges = json.loads(done.stdout)
    for group in groups:
        loaded = loaded_after[group[0]]
        ours = {name.partition(".")[0] for name in loaded} & set(PACKAGES) - {package}
        allowed = ALLOWED[package] | also_of(group[0])
        naming = sorted({edge for edge in map(tuple, edges) if edge[1].partition(".")[0] in ours - allowed})
        assert ours <= allowed, naming
        assert not {name for name in loaded if name.partition(".")[0] == "pycuda"}
        for name in FORBIDDEN.get(package, ()):
            assert name not in loaded, [edge for edge in edges if edge[1].startswith(name)]
    # Where nothing imports itself in turn, the order does not matter: each module can be the first.
    graph: dict[str, set[str]] = {}
    for module, wanted in edges:
        if module.partition(".")[0] == package and wanted.partition(".")[0] == package and wanted != module:
            graph.setdefault(module, set()).add(wanted)
    TopologicalSorter(graph).prepare()


def test_pycuda_is_imported_in_one_module_only() -> None:
    naming = [
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "import pycuda" in (text := path.read_text()) or "from pycuda" in text
    ]
    assert naming in ([], ["prover/backends/cuda.py"])


def test_only_the_codec_speaks_messagepack() -> None:
    naming = [
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if any(line.startswith(("import msgpack", "from msgpack")) for line in path.read_text().splitlines())
    ]
    assert naming == ["wire/codec.py"]


def test_only_the_config_modules_and_the_command_read_the_environment() -> None:
    allowed = {"agent/config.py", "hub/config.py"}
    naming = {
        path.relative_to(ROOT).as_posix()
        for package in ("agent", "hub", "wire", "kernels")
        for path in sorted((ROOT / package).rglob("*.py"))
        if "os.environ" in (text := path.read_text()) or "getenv" in text
    }
    assert naming <= allowed
