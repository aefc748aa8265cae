"""The line that says how far long work has come, with a clock moved by hand."""

import io

from cli.progress import QUICK_S, REFRESH_S, ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_quick_work_writes_nothing() -> None:
    clock, terminal = Clock(), Terminal()
    with ProgressLine(terminal, clock) as line:
        line("coefficients", 1, 2)
        clock.now += QUICK_S / 2
        line("coefficients", 2, 2)
    assert terminal.getvalue() == ""


def test_long_work_rewrites_one_line_and_clears_it() -> None:
    clock, terminal = Clock(), Terminal()
    with ProgressLine(terminal, clock) as line:
        clock.now += QUICK_S
        line("A", 1, 4)
        line("A", 2, 4)  # too soon
        clock.now += REFRESH_S
        line("A", 3, 4)
        clock.now += REFRESH_S
        line("C", 0, 0)
    assert terminal.getvalue() == "\r\x1b[K 25 %  A\r\x1b[K 75 %  A\r\x1b[K100 %  C\r\x1b[K"


def test_what_is_no_terminal_gets_nothing() -> None:
    clock, file = Clock(), io.StringIO()
    with ProgressLine(file, clock) as line:
        clock.now += 10
        line("A", 1, 4)
    assert file.getvalue() == ""


def test_a_terminal_that_is_gone_stops_nothing() -> None:
    class Gone(Terminal):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    clock = Clock()
    with ProgressLine(Gone(), clock) as line:
        clock.now += 10
        line("A", 1, 4)
        clock.now += 10
        line("A", 2, 4)
