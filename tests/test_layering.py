"""The edges between the packages, found by importing every module in an interpreter that has loaded nothing of ours."""

import json
import pkgutil
import subprocess
import sys
from importlib import import_module
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

# Loaded before the modules are, each in a fork: it is not what is looked for, and takes most of the time.
OUTSIDE = {
    "agent": ("aiohttp.web", "cryptography.hazmat.primitives.asymmetric.ed25519", "structlog", "msgspec", "websockets"),
    "hub": ("aiohttp.web", "alembic.command", "cryptography.x509", "sqlalchemy.orm", "structlog", "msgspec", "uvloop"),
}

PROBE = """
import importlib, json, os, sys
outside, modules = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for name in outside:
    importlib.import_module(name)
for name in modules:
    child = os.fork()
    if not child:
        importlib.import_module(name)
        print(json.dumps([name, list(sys.modules)]), flush=True)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{name} does not import by itself")
"""


def modules_of(package: str) -> list[str]:
    """Every module of a package but migration scripts, which only Alembic loads."""
    found = import_module(package)
    names = [package, *(m.name for m in pkgutil.walk_packages(found.__path__, package + "."))]
    return [name for name in names if "migrations" not in name and not name.endswith("__main__")]


def loaded_by_each(package: str) -> dict[str, set[str]]:
    """What is loaded after each module of a package was imported by itself."""
    modules = modules_of(package)
    argv = [sys.executable, "-c", PROBE, json.dumps(OUTSIDE.get(package, ())), json.dumps(modules)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=170)
    assert done.returncode == 0, done.stderr
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert list(found) == modules
    return {name: set(loaded) for name, loaded in found.items()}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_of_a_package_keeps_to_its_edges(package: str) -> None:
    assert not {name.partition(".")[0] for name in OUTSIDE.get(package, ())} & {*PACKAGES, *FORBIDDEN.get(package, ())}
    for module, loaded in loaded_by_each(package).items():
        ours = {name.partition(".")[0] for name in loaded} & set(PACKAGES) - {package}
        allowed = ALLOWED[package] | ALSO.get(".".join(module.split(".")[:2]), set())
        assert ours <= allowed, f"{module} loads {sorted(ours - allowed)}"
        assert not {name for name in loaded if name.partition(".")[0] == "pycuda"}, f"{module} loads pycuda"
        for name in FORBIDDEN.get(package, ()):
            assert name not in loaded, f"{module} loads {name}"


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
