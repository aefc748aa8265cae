"""What is remembered of a daemon over a restart of the agent: that there is one, and which jobs' ends were told.

Without it an agent that starts while the daemon is down would not know that there should be one, and would tell the
failures the daemon still lists once more. A crash between telling and remembering tells twice, never not at all.
"""

from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from agent.durable import write_file
from agent.sensors.cuzk.fates import Ended
from agent.sensors.cuzk.mend import Known
from agent.sensors.cuzk.steady import Moment

log = structlog.get_logger(__name__)

FILE_BYTES_MAX = 4 * 1024 * 1024


class Memory(Struct, frozen=True):
    """The file's content. Moments on the monotonic clock are only good within one boot of the machine."""

    boot_id: str
    started: Moment | None = None
    told: dict[str, Ended] = {}

    @property
    def known(self) -> Known | None:
        """The run of the daemon it is about."""
        return None if self.started is None else Known(self.started, self.told)


class MemoryFile:
    """Reads and writes the file; both block."""

    def __init__(self, path: Path | None, boot_id: str) -> None:
        self._path = path
        self._boot_id = boot_id
        self._last: Memory | None = None

    def load(self) -> Memory | None:
        """What was remembered; None if no daemon was ever seen, or the file cannot be read."""
        if self._path is None:
            return None
        try:
            with self._path.open("rb") as file:
                memory = msgspec.json.decode(file.read(FILE_BYTES_MAX + 1), type=Memory)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            log.warning("cuzk.memory_unreadable", path=str(self._path), error=str(error))
            return None
        self._last = memory
        return memory if memory.boot_id == self._boot_id else Memory(self._boot_id)

    def is_news(self, known: Known | None) -> bool:
        """Whether ``known`` is worth writing: another run of the daemon, or other jobs told."""
        last = self._last
        if self._path is None:
            return False
        if last is None or last.boot_id != self._boot_id:
            return True
        return known is not None and (last.started, last.told) != (known.started, known.told)

    def save(self, known: Known | None) -> None:
        """Remember. A disk that refuses is logged: nothing but a repeated event comes of it."""
        if self._path is None:
            return
        memory = Memory(self._boot_id) if known is None else Memory(self._boot_id, known.started, known.told)
        self._last = memory
        try:
            write_file(self._path, msgspec.json.encode(memory))
        except OSError as error:
            log.warning("cuzk.memory_not_saved", path=str(self._path), error=str(error))
