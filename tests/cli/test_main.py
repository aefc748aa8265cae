"""The command as a user meets it: help, usage errors, exit codes."""

import errno
import os
import subprocess
import sys

import pytest

from cli.errors import EXIT_INTERNAL, EXIT_UNREACHABLE, EXIT_USAGE, Unreachable, UsageError
from cli.main import COMMANDS, STARVED, main, report, starved


def test_help_names_every_subcommand_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name in COMMANDS:
        assert name in text
    for code in (
        "0 ok",
        "2 unreadable",
        "3 files",
        "4 the proof",
        "5 device",
        "6 internal",
        "64 usage",
        "69 hub",
        "75 an",
    ):
        assert code in text


@pytest.mark.parametrize("name", COMMANDS)
def test_each_subcommand_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert "exit codes" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [[], ["nosuch"], ["verify"], ["hub", "--nosuch"], ["supervise", "demo"]])
def test_a_usage_error_is_one_sentence_and_exit_64(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith("provewire: ")
    assert "Traceback" not in captured.err


def test_a_wrong_log_setting_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROVEWIRE_LOG", "xml")
    assert main(["supervise", "agent"]) == EXIT_USAGE
    assert "PROVEWIRE_LOG is 'xml'" in capsys.readouterr().err


def test_the_users_mistakes_are_told_apart_from_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(UsageError("no")) == EXIT_USAGE
    assert report(Unreachable("no")) == EXIT_UNREACHABLE
    assert "Traceback" not in capsys.readouterr().err
    assert report(ZeroDivisionError("ours")) == EXIT_INTERNAL
    assert "internal fault: ZeroDivisionError: ours" in capsys.readouterr().err


def test_the_version_is_the_distributions() -> None:
    done = subprocess.run([sys.executable, "-m", "cli.main", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("provewire 0.")


def test_a_process_without_descriptors_says_so_in_one_line_and_ends() -> None:
    """The interpreter itself needs some; with so few an agent comes as far as its loop."""
    script = (
        "import resource, sys; from cli.main import main; resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)); "
        "sys.exit(main(['agent', '--hub', 'http://127.0.0.1:1', '--local', 'off', '--device', 'host']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == EXIT_INTERNAL
    assert f"provewire: {STARVED}\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_descriptors_are_missed_wherever_something_was_opened() -> None:
    hidden = RuntimeError("Cannot close a running event loop")
    hidden.__context__ = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    library = ImportError("libz.so.1: cannot open shared object file: Too many open files")
    assert starved(OSError(errno.ENFILE, "x"))
    assert starved(hidden)
    assert starved(library)
    assert not starved(OSError(errno.ENOSPC, "x"))
