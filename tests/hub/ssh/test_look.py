"""What the hub runs to look after a node, by real shells, with stand-ins only for programs this machine lacks."""

import contextlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from hub.ssh.ladder import NO_COMMAND, Rung, State, beyond
from hub.ssh.scripts import LOOK, local_status, sections
from tests.hub.ssh.test_scripts import SHELLS

NONCE = "0f" * 16
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(params=SHELLS)
def sh(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def look(sh: str, script: str, home: Path, programs: Path | None = None) -> dict[str, str]:
    argv = ["busybox", "sh", "-c", script] if sh == "busybox" else [sh, "-c", script]
    path = PATH if programs is None else f"{programs}:{PATH}"
    environ = {"PATH": path, "HOME": str(home)}
    ended = subprocess.run(argv, capture_output=True, timeout=60, check=False, env=environ, cwd="/")
    assert ended.stderr == b""
    return sections(ended.stdout.decode("utf-8", "replace"))


WAITS = "import sys; sys.stdin.read()"


@contextlib.contextmanager
def started(argv: list[str], folder: Path) -> Iterator[int]:
    """A process of Python with this command line, until the end."""
    with subprocess.Popen(argv, executable=sys.executable, stdin=subprocess.PIPE, cwd=folder) as running:
        try:
            yield running.pid
        finally:
            running.kill()


@contextlib.contextmanager
def installed(folder: Path, *words: str) -> Iterator[int]:
    """As a console script of an installed distribution runs: ``python .../bin/provewire agent``."""
    script = folder / "opt" / "provewire"
    script.parent.mkdir(exist_ok=True)
    script.write_text(WAITS)
    with started([sys.executable, str(script), *words], folder) as pid:
        yield pid


@contextlib.contextmanager
def as_module(folder: Path, *words: str) -> Iterator[int]:
    """As an agent starts its workers, and a supervisor its agent: ``python -m cli.main worker``."""
    (folder / "cli").mkdir(exist_ok=True)
    (folder / "cli" / "__init__.py").touch()  # else the real one wins, wherever PYTHONPATH has it
    (folder / "cli" / "main.py").write_text(WAITS)
    with started([sys.executable, "-S", "-m", "cli.main", *words], folder) as pid:
        yield pid


def lines_of(found: dict[str, str], pid: int) -> list[str]:
    return [line for line in found["processes"].splitlines() if line.startswith(f"{pid} ")]


def test_every_rung_has_its_section(sh: str, tmp_path: Path) -> None:
    found = look(sh, f"{LOOK}\n{local_status(NONCE)}", tmp_path)
    wanted = {"processes", "gpu_processes", "gpus", "unit", "log", "disk", "memory", "clock", "frame"}
    assert wanted <= found.keys()
    steps = {step.rung: step for step in beyond(found, int(found["clock"]))}
    assert steps[Rung.CLOCK].state is State.OK
    assert steps[Rung.MEMORY].state in {State.OK, State.WARNING}
    assert steps[Rung.DISK].state in {State.OK, State.WARNING}


@pytest.mark.parametrize("running", [installed, as_module])
@pytest.mark.parametrize("kind", ["agent", "worker", "supervise"])
def test_processes_of_ours_are_known_however_they_were_started(
    sh: str, tmp_path: Path, running: Callable[..., AbstractContextManager[int]], kind: str
) -> None:
    with running(tmp_path, kind, "--device", "host") as pid:
        found = look(sh, LOOK, tmp_path)
    (line,) = lines_of(found, pid)
    assert line.split()[1] in {"S", "R", "D"}
    assert line.split()[2] == kind
    steps = {step.rung: step for step in beyond({"processes": line}, 0)}
    assert (steps[Rung.PROVERS].state is State.OK) == (kind == "worker")
    assert (steps[Rung.AGENT].state is State.OK) == (kind == "agent")
    assert ("its supervisor runs" in steps[Rung.AGENT].sentence) == (kind == "supervise")


def test_a_cuzk_daemon_is_a_prover(sh: str, tmp_path: Path) -> None:
    with started(["/usr/local/bin/cuzk-daemon", "-c", WAITS, "--config", "/data/zk/cuzk.toml"], tmp_path) as pid:
        (line,) = lines_of(look(sh, LOOK, tmp_path), pid)
    assert beyond({"processes": line}, 0)[0].sentence == "alive: a cuzk-daemon; leave them alone"


@pytest.mark.parametrize(
    "argv",
    [
        ["less", "-c", WAITS, "/var/log/provewire-agent.log"],
        ["journalctl", "-c", WAITS, "-u", "provewire-worker@host"],
        ["vi", "-c", WAITS, "cuzk.toml"],
        ["ssh", "-c", WAITS, "provewire", "worker"],
        ["python3", "-c", f"{WAITS} # provewire worker\nprovewire worker"],
    ],
)
def test_what_only_names_us_is_none_of_ours_and_neither_is_the_look_itself(
    sh: str, tmp_path: Path, argv: list[str]
) -> None:
    with started(argv, tmp_path) as pid:
        found = look(sh, f"{LOOK}\n{local_status(NONCE)}", tmp_path)
    assert lines_of(found, pid) == []
    assert "limited" not in found["processes"]


def test_a_driver_that_hangs_is_asked_once_and_said(sh: str, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    program(tmp_path / "bin", "nvidia-smi", f"echo asked >> {asked}; sleep 60")
    program(tmp_path / "bin", "timeout", 'shift; exec /usr/bin/timeout 0.2 "$@"')
    found = look(sh, LOOK, tmp_path, tmp_path / "bin")
    assert asked.read_text().count("asked") == 1
    step = {step.rung: step for step in beyond(found, 0)}[Rung.GPUS]
    assert (step.state, "the driver hangs" in step.sentence) == (State.FAILED, True)


def test_the_agent_of_the_usual_place_answers(sh: str, tmp_path: Path) -> None:
    program(tmp_path / "bin", "provewire", 'echo "pws1.$*"')
    found = look(sh, local_status(NONCE), tmp_path, tmp_path / "bin")
    assert found["frame"] == f"pws1.status --frame --nonce {NONCE}"


def test_an_agent_elsewhere_is_found_by_its_process(sh: str, tmp_path: Path) -> None:
    folder = tmp_path / "an agent's; $(touch x)"
    program(
        tmp_path / "bin",
        "provewire",
        f'case "$2" in {shlex.quote(f"--data-dir={folder}")}) echo pws1.there ;; *) echo none >&2; exit 69 ;; esac',
    )
    for words in (("--data-dir", str(folder)), (f"--data-dir={folder}",)):
        with installed(tmp_path, "agent", *words):
            found = look(sh, local_status(NONCE), tmp_path, tmp_path / "bin")
        assert found["frame"].splitlines()[0] == "pws1.there"
        assert {step.rung: step for step in beyond(found, 0)}[Rung.STATUS].state is State.OK


def test_what_a_strangers_process_calls_itself_is_never_run(sh: str, tmp_path: Path) -> None:
    trap = program(tmp_path / "evil", "provewire", f"touch {tmp_path / 'was_run'}; echo pws1.evil")
    program(tmp_path / "bin", "provewire", "echo 'no agent answers'; exit 69")
    with (
        started([str(trap), "-c", WAITS, "agent"], tmp_path),
        installed(tmp_path, "agent", "--data-dir", "--frame;touch was_run"),
    ):
        found = look(sh, local_status(NONCE), tmp_path, tmp_path / "bin")
    assert not (tmp_path / "was_run").exists()
    assert found["frame"] == "no agent answers"


def test_without_provewire_it_says_so(sh: str, tmp_path: Path) -> None:
    found = look(sh, local_status(NONCE).replace("/opt/provewire/bin:/usr/local/bin", ""), tmp_path)
    assert found["frame"].startswith(NO_COMMAND)
    (step,) = [step for step in beyond(found, 0.0) if step.rung is Rung.STATUS]
    assert step.state is State.UNKNOWN, "nobody was asked"
    assert step.sentence == "not asked: there is no provewire in PATH, nor in /opt/provewire/bin"
