"""A node's picture as its hub builds it up: one full status, then changes, each validated before it is taken over.

Most pictures change many times before anybody looks. So a change is validated and then kept as it came, some hundred
bytes; only when somebody looks, or too many wait, they are put together in plain maps under the wire's keys, and the
typed `NodeStatus` is made from these. A picture nobody looks at can be packed, to a tenth of its size.
"""

import msgspec

from wire.codec import decode_known_agent
from wire.deltas import SLOT_KEY, NodeChanges
from wire.errors import RemoteProtocolError
from wire.plain import Plain, PlainNodeStatus, PlainStatus
from wire.reasons import Reason
from wire.status import NodeStatus

WAITING_MAX = 32
"""Changes kept as they came: half a minute's, some 10 KiB."""
WAITING_BYTES_MAX = 32 * 1024
"""The same of an agent that sends large ones."""
STATUS_KEYS = dict(zip(NodeStatus.__struct_fields__, NodeStatus.__struct_encode_fields__, strict=True))
CHANGES_KEYS = dict(zip(NodeChanges.__struct_fields__, NodeChanges.__struct_encode_fields__, strict=True))
_HOST, _HOST_CHANGE = STATUS_KEYS["host"], CHANGES_KEYS["host"]
_GPUS, _GPU_CHANGES = STATUS_KEYS["gpus"], CHANGES_KEYS["gpus"]
_ENGINES, _ENGINE_CHANGES = STATUS_KEYS["engines"], CHANGES_KEYS["engines"]
_PACKED = msgspec.json.Encoder()
_UNPACKED: msgspec.json.Decoder[Plain] = msgspec.json.Decoder(PlainNodeStatus)


class Picture:
    """The latest picture of one node. It changes in place; ``status`` is a value of its own and stays as it was.

    Args:
        frame: a full status.
        data: the same as it came.
    """

    __slots__ = ("_awake", "_has_host", "_known", "_resting", "_status", "_waiting", "_waiting_bytes", "changes")

    def __init__(self, frame: PlainStatus, data: bytes) -> None:
        self._awake: Plain | None = None
        self._resting = b""
        self._waiting = [data]
        self._waiting_bytes = len(data)
        self._status: NodeStatus | None = None
        self.changes = 0
        """Counts up with every change: whoever looks again sees whether there is anything new."""
        self._has_host = False
        self._known = (0, 0)
        """How many cards and engines were told."""
        self._count(frame.status)

    @property
    def status(self) -> NodeStatus:
        """The whole picture now. Made anew after a change: ask for it when it is needed, not with every frame.

        One that rests is not woken by a look.
        """
        if self._resting and not self._waiting:
            return _typed(_UNPACKED.decode(self._resting))
        if self._status is None:
            self._status = _typed(self._put_together())
        return self._status

    def take(self, frame: PlainStatus, data: bytes) -> None:
        """Take over what a delta told; ``data`` is the frame as it came.

        Raises:
            RemoteProtocolError: it changes a part that was never told; nothing was taken.
        """
        told, changes = frame.status, frame.changes
        if not told and not changes:
            return
        if changes:
            self._check(changes)
        if told:
            self._count(told)
        self.changes += 1
        self._status = None
        waiting = self._waiting
        waiting.append(data)
        self._waiting_bytes += len(data)
        if len(waiting) >= WAITING_MAX or self._waiting_bytes > WAITING_BYTES_MAX:
            self._put_together()

    def rest(self) -> bytes:
        """Nobody looks for a while: keep it packed, until somebody does.

        Returns:
            The status as JSON, under the wire's keys.
        """
        if self._awake is not None or self._waiting:
            self._resting = _PACKED.encode(self._put_together())
            self._awake = self._status = None
        return self._resting

    def _put_together(self) -> Plain:
        plain = self._awake
        if plain is None:
            plain = self._awake = _UNPACKED.decode(self._resting) if self._resting else {}
            self._resting = b""
        if self._waiting:
            for data in self._waiting:
                frame = decode_known_agent(data)
                if isinstance(frame, PlainStatus):
                    plain.update(frame.status)
                    _change(plain, frame.changes or {})
            self._waiting = []
            self._waiting_bytes = 0
        return plain

    def _count(self, told: Plain) -> None:
        if _HOST in told:
            self._has_host = True
        cards, engines = told.get(_GPUS), told.get(_ENGINES)
        if cards is not None or engines is not None:
            known = self._known
            self._known = (
                known[0] if cards is None else len(cards),
                known[1] if engines is None else len(engines),
            )

    def _check(self, changes: Plain) -> None:
        """Whether every part that changes is there."""
        if not self._has_host and changes.get(_HOST_CHANGE) is not None:
            raise RemoteProtocolError(Reason.OUT_OF_ORDER, "a change of the host, which was never told")
        known = self._known
        if parts := changes.get(_GPU_CHANGES):
            _check_slots(parts, known[0], "card")
        if parts := changes.get(_ENGINE_CHANGES):
            _check_slots(parts, known[1], "engine")


def _typed(plain: Plain) -> NodeStatus:
    return msgspec.convert(plain, NodeStatus, builtin_types=(bytes,))


def _check_slots(changes: list[Plain], known: int, word: str) -> None:
    for change in changes:
        if change[SLOT_KEY] >= known:
            detail = f"a change of {word} {change[SLOT_KEY]}, of which {known} were told"
            raise RemoteProtocolError(Reason.OUT_OF_ORDER, detail)


def _change(plain: Plain, changes: Plain) -> None:
    if (change := changes.get(_HOST_CHANGE)) is not None:
        plain[_HOST].update(change)
    for where, key in ((_GPU_CHANGES, _GPUS), (_ENGINE_CHANGES, _ENGINES)):
        if parts := changes.get(where):
            present = plain[key]
            for change in parts:
                present[change.pop(SLOT_KEY)].update(change)
