"""Tables for people: on a terminal, in a pipe, and never obeyed by either."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from cli.incidents import plain

PIPE_COLUMNS = 400
"""Where nobody looks on, a line is as long as it is."""
NOTHING = "-"


def show(columns: Sequence[str], rows: Iterable[Sequence[object]], nothing: str) -> None:
    """Print a table, or what is said when there is nothing in it."""
    import sys  # noqa: PLC0415 - each side is imported in its own subcommand only

    from rich.console import Console  # noqa: PLC0415 - same
    from rich.table import Table  # noqa: PLC0415 - same
    from rich.text import Text  # noqa: PLC0415 - same

    found = list(rows)
    if not found:
        print(nothing)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in found:
        table.add_row(*(Text(plain(cell(value))) for value in row))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_COLUMNS)
    with console.capture() as drawn:
        console.print(table)
    print("\n".join(line.rstrip() for line in drawn.get().splitlines()))


def cell(value: object) -> str:
    """A value as people read it."""
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case list() | tuple():
            return ", ".join(map(str, value)) or NOTHING
    return str(value)


def moment(time_ms: int | None) -> str:
    """Local time, to the second."""
    if time_ms is None:
        return NOTHING
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}"


def lines(*pairs: tuple[str, object]) -> str:
    """One thing, a line for each of what is known of it."""
    wide = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name:{wide}}  {plain(cell(value))}" for name, value in pairs)
