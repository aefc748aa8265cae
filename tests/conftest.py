"""What all tests share: a missing system tool skips a test here, and fails the run where it has to be present."""

import os

import pytest


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
