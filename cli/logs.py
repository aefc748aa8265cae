"""The log streams of every process: structlog to stderr, for people (console) or for machines (JSON lines).

Only this module configures logging. ``PROVEWIRE_LOG=console|json`` chooses; unset, a terminal gets console and
anything else gets JSON lines; systemd's journal gets each line behind its level. The threshold is
``PROVEWIRE_LOG_LEVEL=debug|info|warning|error``.
"""

import logging
import os
import sys
from types import ModuleType

from cli.errors import UsageError

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMS = ("console", "json")
JOURNAL = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
"""Python's levels, and syslog's."""
JOURNAL_DEBUG = 7


def configure(*, daemon: bool = False) -> None:
    """Set up structlog and route the standard library's records through it.

    Args:
        daemon: never let who logs wait for who reads (`cli.log_writer`). A command that a person waits for writes at
            once instead, so that its lines stand in order with what else it says.

    Raises:
        UsageError: an environment variable holds something else than it may.
    """
    form = os.environ.get("PROVEWIRE_LOG") or ("console" if sys.stderr.isatty() else "json")
    level_name = os.environ.get("PROVEWIRE_LOG_LEVEL") or "info"
    if form not in FORMS:
        raise UsageError(f"PROVEWIRE_LOG is {form!r}; it may be console or json")
    if level_name not in LEVELS:
        raise UsageError(f"PROVEWIRE_LOG_LEVEL is {level_name!r}; it may be {', '.join(LEVELS)}")
    structlog = _structlog_for(form)
    shared = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Tracebacks without the values of local variables: among them are keys, tokens and witnesses.
    if form == "json":
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        last = [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer()]
    else:
        rich_tracebacks = structlog.dev.RichTracebackFormatter(show_locals=False)
        colors = sys.stderr.isatty()
        last = [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=rich_tracebacks)]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = _writer() if daemon else logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler.setFormatter(Prefixed(formatter) if for_journal(os.environ.get("JOURNAL_STREAM", "")) else formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level_name])
    for chatty in ("websockets", "aiohttp.access", "alembic", "asyncio"):
        logging.getLogger(chatty).setLevel(max(LEVELS[level_name], logging.WARNING))


def flush() -> None:
    """Have everything written that was said so far, as far as somebody reads it."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def _writer() -> logging.Handler:
    """The handler of a daemon."""
    from cli.log_writer import LogWriter  # noqa: PLC0415 - of daemons only

    try:
        return LogWriter(sys.stderr.fileno())
    except (OSError, ValueError):  # no file at all
        return logging.StreamHandler(sys.stderr)


def for_journal(stream: str) -> bool:
    """Whether our standard error goes to systemd's journal, which says so by device and inode (systemd.exec(5))."""
    try:
        here = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # closed, or no file at all
        return False
    return stream == f"{here.st_dev}:{here.st_ino}"


class Prefixed(logging.Formatter):
    """Each line with its level as the journal reads it (sd-daemon(3)): ``journalctl -p warning`` then finds it."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Every line of it: the journal takes each for an entry of its own."""
        least = next((number for level, number in JOURNAL if record.levelno >= level), JOURNAL_DEBUG)
        return "\n".join(f"<{least}>{line}" for line in self._inner.format(record).split("\n"))


def _structlog_for(form: str) -> ModuleType:
    """structlog, without the libraries it would load only to paint tracebacks: a sixth of a daemon's memory."""
    hidden = form == "json" and "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # documented: an import of it then fails
    try:
        import structlog  # noqa: PLC0415 - see above
    finally:
        if hidden:
            del sys.modules["rich"]
    return structlog
