"""The supervisor over real child processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli import supervise
from cli.supervise import RESTART_FIRST_S, RESTART_MAX_S, STABLE_S, Supervisor, wait_before_restart_s


def test_waits_grow_to_a_cap_and_start_over_after_a_stable_run() -> None:
    failures, waits = 0, []
    for _ in range(10):
        failures, wait_s = wait_before_restart_s(failures, 0.1)
        waits.append(wait_s)
    assert waits[:3] == [RESTART_FIRST_S, 2 * RESTART_FIRST_S, 4 * RESTART_FIRST_S]
    assert waits[-1] == RESTART_MAX_S
    assert wait_before_restart_s(failures, STABLE_S) == (1, RESTART_FIRST_S)


@pytest.fixture
def kept_signals() -> object:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
    before = {number: signal.getsignal(number) for number in numbers}
    wakeup = signal.set_wakeup_fd(-1)
    yield
    signal.set_wakeup_fd(wakeup)
    for number, handler in before.items():
        signal.signal(number, handler)


SCRIPT = """
import sys
from pathlib import Path
count = Path(sys.argv[1])
runs = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(runs))
sys.exit(int(sys.argv[1 + runs]))
"""


@pytest.mark.usefixtures("kept_signals")
def test_it_restarts_until_the_configuration_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "RESTART_FIRST_S", 0.001)
    said: list[str] = []
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path / "count"), "1", "6", "64"]
    assert Supervisor(argv, said.append).run() == 64
    assert (tmp_path / "count").read_text() == "3"
    assert next(line for line in said if "restarting" in line).startswith("supervise: it ended (exit 1)")


@pytest.mark.usefixtures("kept_signals")
def test_a_killed_child_is_told_by_its_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "RESTART_FIRST_S", 0.001)
    said: list[str] = []
    script = SCRIPT.replace(
        "sys.exit(", "__import__('os').kill(__import__('os').getpid(), 9) if runs == 1 else sys.exit("
    )
    assert Supervisor([sys.executable, "-c", script, str(tmp_path / "count"), "1", "0"], said.append).run() == 0
    assert "signal 9, Killed" in said[0]


def test_stopping_it_stops_its_child_and_ends_with_0() -> None:
    script = (
        "import sys; from cli.supervise import Supervisor; "
        "sys.exit(Supervisor([sys.executable, '-c', 'import signal; print(1, flush=True); signal.pause()']).run())"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "1\n"
        os.kill(supervisor.pid, signal.SIGTERM)
        assert supervisor.wait(timeout=30) == 0
        assert supervisor.stdout.read() == ""  # the child is gone: nobody holds the pipe


WAITING = """
import os, signal, sys
from pathlib import Path
if "stuck" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with Path(sys.argv[1]).open("a") as file:
    file.write("run\\n")
print(os.getpid(), flush=True)
signal.pause()
"""


@pytest.mark.parametrize("stuck", [[], ["stuck"]], ids=["well", "stuck"])
def test_it_starts_its_child_anew_when_told_also_one_that_is_stuck(tmp_path: Path, stuck: list[str]) -> None:
    runs = tmp_path / "runs"
    code = (
        "import sys; from cli import supervise; supervise.RENEW_KILL_S = 0.2;"
        f"sys.exit(supervise.Supervisor([sys.executable, '-c', {WAITING!r}, {str(runs)!r}, *{stuck!r}]).run())"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        for number in range(3):
            child = int(supervisor.stdout.readline())
            assert runs.read_text() == "run\n" * (number + 1)
            supervisor.send_signal(signal.SIGHUP if number < 2 else signal.SIGTERM)
        if stuck:
            os.kill(child, signal.SIGKILL)  # who is stopped waits for its child, however long that takes
        assert supervisor.wait(timeout=20) == 0
        assert supervisor.stderr is not None
        assert supervisor.stderr.read().count("started anew, as asked") == 2


def test_it_does_not_wait_with_a_child_that_is_down_when_told(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path / "count"), "6", "64"]
    code = (
        "import sys; from cli import supervise; supervise.RESTART_FIRST_S = 600.0;"
        f"sys.exit(supervise.Supervisor({argv!r}).run())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stderr is not None
        assert "restarting in" in supervisor.stderr.readline()
        supervisor.send_signal(signal.SIGHUP)
        assert supervisor.wait(timeout=20) == 64
    assert (tmp_path / "count").read_text() == "2"


def test_it_leaves_behind_how_it_was_started_and_no_secret(tmp_path: Path) -> None:
    words = ["python", "-m", "cli.main", "supervise", "agent", "--name", "it's $HOME"]
    environ = {"HOME": str(tmp_path), "PATH": "/bin", "PROVEWIRE_HUB": "a b'c", "RUNPOD_API_KEY": "secret", "A B": "x"}
    supervise.write_down(
        "agent", [sys.executable, "-c", "import os, sys; print(sys.argv, os.environ)", *words], environ
    )
    (script,) = tmp_path.rglob("*.sh")
    assert script == tmp_path / ".local/share/provewire/supervise-agent.sh"
    assert script.stat().st_mode & 0o777 == 0o600
    assert "secret" not in script.read_text()
    # Its words go where they went before: here to pytest's own file, so the end of the line is replaced.
    script.write_text(script.read_text().rpartition(" >> ")[0] + "\n")
    done = subprocess.run(
        ["sh", str(script)], cwd="/", env={"HOME": "/nowhere"}, capture_output=True, text=True, check=True
    )
    assert repr(words)[1:-1] in done.stdout
    assert repr("a b'c") in done.stdout
    assert "/nowhere" in done.stdout, "the home is the login's"


def test_its_words_go_where_they_went_or_beside_the_script(tmp_path: Path) -> None:
    code = (
        "import os, sys; from cli.supervise import write_down;"
        "write_down('agent', ['true'], {'HOME': sys.argv[1]}); write_down('hub', ['true'], {})"
    )
    log, folder = tmp_path / "log", tmp_path / ".local/share/provewire"
    argv = [sys.executable, "-c", code, str(tmp_path)]
    with log.open("w") as file:
        subprocess.run(argv, stderr=file, check=True)
    assert [path.name for path in folder.iterdir()] == ["supervise-agent.sh"]
    assert f">> {log} 2>&1" in (folder / "supervise-agent.sh").read_text()
    subprocess.run(argv, stderr=subprocess.PIPE, check=True)
    assert f">> {folder / 'supervise-agent.log'} 2>&1" in (folder / "supervise-agent.sh").read_text()
