"""What all tests share: a missing system tool skips a test here, and fails the run where it has to be present."""

import logging
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

from prover.backends.build import find_compiler
from prover.errors import DeviceError

# How long an example takes says something about the machine and whatever else runs there, and nothing about the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

TESTS = Path(__file__).parent
# Whole files and folders whose every test builds or runs kernels; single tests elsewhere carry the marker.
COMPILED = (
    "chaos/",
    "cli/test_prove.py",
    "e2e/",
    *(f"kernels/test_{name}.py" for name in ("entries", "field_laws", "group_laws", "msm", "ntt", "rows", "scan")),
    "oracle/",
    "prover/test_backends.py",
    "prover/test_groth16.py",
    *(
        f"prover/test_{name}.py"
        for name in ("key_format", "key_shapes", "keys", "mutated_files", "native", "reports", "setup")
    ),
)


SLOW = ("browser/", "chaos/", "drills/", "e2e/", "oracle/")
"""Folders of tests that start many processes and wait for them: a few fill minutes, and must not begin last."""

LOGS: dict[str, Any] = {
    "processors": [structlog.stdlib.add_log_level, structlog.dev.ConsoleRenderer(colors=False)],
    "logger_factory": structlog.stdlib.LoggerFactory(),
    "wrapper_class": structlog.stdlib.BoundLogger,
    "cache_logger_on_first_use": False,
}
"""Where nobody set it up otherwise: to pytest, which shows it of a test that fails, never into a program's output."""
structlog.configure(**LOGS)
logging.getLogger("aiohttp.access").setLevel(logging.WARNING)  # as the programs do


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A program run in this process sets up log streams; these must not outlive the captured stream they write to."""
    logging.root.setLevel(logging.INFO)
    yield
    # pytest's own are of kinds of their own.
    logging.root.handlers[:] = [one for one in logging.root.handlers if type(one) is not logging.StreamHandler]
    structlog.configure(**LOGS)


def _slow_first(items: list[pytest.Item], workers: int) -> None:
    """Put the slow files where workers begin: each gets as many tests as the others, and takes of theirs when it ends.

    Every second worker: the others do what is short meanwhile, so that not all cores are asked for at once.
    """
    files: dict[Path, list[pytest.Item]] = {}
    short = []
    for item in items:
        if item.path.relative_to(TESTS).as_posix().startswith(SLOW):
            files.setdefault(item.path, []).append(item)
        else:
            short.append(item)
    beginners = range(0, workers, 2)
    slow = {worker: list(files.values())[number :: len(beginners)] for number, worker in enumerate(beginners)}
    whole = len(items)
    rest = iter(short)
    items.clear()
    for worker in range(workers):
        for tests in slow.get(worker, ()):
            items += tests
        items += islice(rest, max(0, whole * (worker + 1) // workers - len(items)))
    items += rest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests of several workers, and skip what needs a C++ compiler where there is none."""
    if (workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) > 1:
        _slow_first(items, workers)
    try:
        find_compiler()
    except DeviceError:
        skip = pytest.mark.skip(reason="a C++ compiler is missing: apt-get install g++")
        for item in items:
            inside = item.path.relative_to(TESTS).as_posix()
            if inside.startswith(COMPILED) or item.get_closest_marker("compiler"):
                item.add_marker(skip)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which system tools are missing, once, as the line to run."""
    reasons = missing_tools(terminalreporter)
    if reasons:
        terminalreporter.section("system tools that are missing")
        for reason in sorted(set(reasons)):
            terminalreporter.line(reason)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With PROVEWIRE_REQUIRE_TOOLS=1 (as .ci/run sets it) a test skipped for want of a tool is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    required = os.environ.get("PROVEWIRE_REQUIRE_TOOLS") == "1"
    if required and reporter is not None and missing_tools(reporter) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def missing_tools(reporter: pytest.TerminalReporter) -> list[str]:
    """The reasons of tests skipped because a system tool is missing."""
    return [
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in reporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and "apt-get install" in str(report.longrepr[2])
    ]
