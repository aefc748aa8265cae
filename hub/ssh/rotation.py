"""A new key in the place of the old one: offered beside it, let in everywhere by it, and only then the old one goes.

What was done where is written down beside the keys after every step, so that a rotation that was cut off by a restart,
or stopped by a node that is away, is gone on with. The old key's file is kept aside.
"""

import os
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct, field

from hub.keys import write_private
from hub.ssh import identity

log = structlog.get_logger(__name__)

FILE = "rotation.json"
NEXT = ".next"
RETIRED = ".retired-"
FILE_BYTES_MAX = 4 * 1024 * 1024


class RotationDamaged(Exception):
    """The file that says how far a rotation came cannot be read; the sentence says what to do."""


class Station(Struct, kw_only=True):
    """How far one node is."""

    proved_at_ms: int | None = None
    """When a fresh login with the new key alone worked."""
    removed_at_ms: int | None = None
    """When the old key was taken out there."""
    detail: str = ""
    """Why the last step failed."""


class Rotation(Struct, kw_only=True):
    """One rotation, from its beginning to the removal of the old key."""

    started_at_ms: int
    asked_by: str
    old_public: str
    old_fingerprint: str
    new_public: str
    new_fingerprint: str
    retired_at_ms: int | None = None
    """When the new key took the old one's place at the hub."""
    retired_to: str = ""
    """Where the old key's file lies since."""
    nodes: dict[str, Station] = field(default_factory=dict)

    def station(self, node_id: str) -> Station:
        """A node's, begun if it has none."""
        return self.nodes.setdefault(node_id, Station())

    def unproved(self, node_ids: list[str]) -> list[str]:
        """Those at which the new key is not proved."""
        return [node_id for node_id in node_ids if self.station(node_id).proved_at_ms is None]

    def unremoved(self, node_ids: list[str]) -> list[str]:
        """Those where the old key is still let in."""
        return [node_id for node_id in node_ids if self.station(node_id).removed_at_ms is None]


class RotationFiles:
    """The keys and the record of one rotation at a time, beside the hub's first identity. Blocks."""

    def __init__(self, own: Path, folder: Path) -> None:
        self.own = own
        self.next = own.with_name(own.name + NEXT)
        self._state = folder / FILE

    def load(self) -> Rotation | None:
        """The last rotation, done or not.

        Raises:
            RotationDamaged: the file is there and cannot be read.
        """
        try:
            with self._state.open("rb") as file:
                return msgspec.json.decode(file.read(FILE_BYTES_MAX), type=Rotation)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise RotationDamaged(
                f"{self._state} cannot be read ({error}); move it away to begin a new rotation, both keys stay offered"
            ) from error

    def save(self, rotation: Rotation) -> None:
        """Write down how far it is, whole or not at all."""
        self._state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self._state, msgspec.json.encode(rotation))

    def begin(self, now_ms: int, asked_by: str, comment: str) -> Rotation:
        """Make the new key, unless one waits from before, and write the rotation down.

        Raises:
            OSError: it cannot be written.
            ValueError: the old key, or the one that waits, cannot be used.
        """
        old = identity.look(self.own)
        if not old.usable:
            raise ValueError(f"the key to be replaced cannot be used: {old.detail}")
        new = identity.look(self.next) if self.next.exists() else identity.make(self.next, comment)
        if not new.usable:
            raise ValueError(f"the new key cannot be used: {new.detail}; remove it to have another made")
        rotation = Rotation(
            started_at_ms=now_ms,
            asked_by=asked_by,
            old_public=old.public,
            old_fingerprint=old.fingerprint,
            new_public=f"{new.public} {comment}",
            new_fingerprint=new.fingerprint,
        )
        self.save(rotation)
        return rotation

    def offered(self, configured: tuple[Path, ...]) -> tuple[Path, ...]:
        """The keys to offer now: those configured and, while a rotation is under way, the new one beside them."""
        return (*configured, self.next) if self.next.exists() and self.own in configured else configured

    def retire(self, rotation: Rotation, now_ms: int) -> None:
        """Put the new key in the old one's place, the old file aside; at no moment is there no key, or half a one."""
        aside = self.own.with_name(f"{self.own.name}{RETIRED}{rotation.old_fingerprint[7:15].replace('/', '_')}")
        if self.next.exists():
            # ssh reads a public half beside the key first: one of another key would be offered in vain.
            beside, new_beside = (path.with_name(path.name + ".pub") for path in (self.own, self.next))
            try:
                os.link(self.own, aside)
            except FileExistsError:
                log.info("the old key lies aside already", path=str(aside))
            beside.unlink(missing_ok=True)
            self.next.replace(self.own)
            new_beside.unlink(missing_ok=True)
            write_private(beside, f"{rotation.new_public}\n".encode())
        rotation.retired_at_ms, rotation.retired_to = now_ms, str(aside)
        self.save(rotation)
