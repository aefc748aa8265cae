"""What is shipped, as an operator says it; every name is checked before anything is opened or started by it."""

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from agent.errors import ConfigFault
from agent.logs.limits import Rates
from wire.frames import Level

SOURCES_MAX = 32
"""Files and units, together."""
PATH_BYTES_MAX = 1024
UNIT = re.compile(r"[A-Za-z0-9:_.\\][A-Za-z0-9:_.\\@-]{0,254}")
"""What systemd allows in a unit's name; never an option, never a pattern."""


class LogSettings(Struct, frozen=True):
    """What is shipped."""

    files: tuple[Path, ...] = ()
    units: tuple[str, ...] = ()
    level: Level = Level.INFO
    """Records below it stay on the node."""
    rates: Rates = Rates()


def log_settings(files: Sequence[str], units: Sequence[str], level: str, rates: Rates) -> LogSettings:
    """The settings from texts.

    Raises:
        ConfigFault: one of them cannot be used; the sentence names it.
    """
    if level not in {each.value for each in Level}:
        raise ConfigFault(f"--log-ship {level!r} must be {', '.join(each.value for each in Level)}")
    paths = tuple(dict.fromkeys(_path(text) for text in files))
    for unit in units:
        if not UNIT.fullmatch(unit):
            raise ConfigFault(f"--log-unit {unit!r} is no unit's name; it looks like nginx.service")
    if len(paths) + len(units) > SOURCES_MAX:
        raise ConfigFault(f"--log-file and --log-unit name {len(paths) + len(units)} logs; at most {SOURCES_MAX}")
    return LogSettings(paths, tuple(dict.fromkeys(units)), Level(level), rates)


def _path(text: str) -> Path:
    if not text.startswith("/"):
        raise ConfigFault(f"--log-file {text!r} must be a whole path, beginning with /")
    if len(text.encode("utf-8", "surrogateescape")) > PATH_BYTES_MAX or "\0" in text:
        raise ConfigFault(f"--log-file must have at most {PATH_BYTES_MAX} bytes")
    return Path(text)
