"""A node's picture as its hub builds it up: one full status, then changes, each validated before it is taken over.

The picture is kept as it came, in plain maps under the wire's keys, because a change costs a few dictionary updates
that way; the typed `NodeStatus` is made only when somebody looks, and a picture nobody looks at can be packed.
"""

import msgspec

from wire.deltas import SLOT_KEY, NodeChanges
from wire.errors import RemoteProtocolError
from wire.plain import Plain, PlainNodeStatus
from wire.reasons import Reason
from wire.status import NodeStatus

STATUS_KEYS = dict(zip(NodeStatus.__struct_fields__, NodeStatus.__struct_encode_fields__, strict=True))
CHANGES_KEYS = dict(zip(NodeChanges.__struct_fields__, NodeChanges.__struct_encode_fields__, strict=True))
_HOST, _HOST_CHANGE = STATUS_KEYS["host"], CHANGES_KEYS["host"]
_LISTS = (
    (CHANGES_KEYS["gpus"], STATUS_KEYS["gpus"], "card"),
    (CHANGES_KEYS["engines"], STATUS_KEYS["engines"], "engine"),
)
_PACKED = msgspec.json.Encoder()
_UNPACKED: msgspec.json.Decoder[Plain] = msgspec.json.Decoder(PlainNodeStatus)


class Picture:
    """The latest picture of one node. It changes in place; ``status`` is a value of its own and stays as it was.

    Args:
        plain: the ``status`` of a full frame; the picture takes it over.
    """

    __slots__ = ("_awake", "_resting", "_status")

    def __init__(self, plain: Plain) -> None:
        self._awake: Plain | None = plain
        self._resting = b""
        self._status: NodeStatus | None = None

    @property
    def _plain(self) -> Plain:
        if self._awake is None:
            self._awake = _UNPACKED.decode(self._resting)
            self._resting = b""
        return self._awake

    def rest(self) -> bytes:
        """Nobody looks for a while: keep it packed, a tenth of its size, until it changes or somebody does.

        Returns:
            The status as JSON, under the wire's keys.
        """
        if self._awake is not None:
            self._resting = _PACKED.encode(self._awake)
            self._awake = self._status = None
        return self._resting

    @property
    def status(self) -> NodeStatus:
        """The whole picture now. Made anew after a change: ask for it when it is needed, not with every frame."""
        if self._status is None:
            self._status = msgspec.convert(self._plain, NodeStatus, builtin_types=(bytes,))
        return self._status

    def take(self, told: Plain, changes: Plain | None) -> None:
        """Take over what a delta frame told: its ``status`` and ``changes``.

        Raises:
            RemoteProtocolError: it changes a part that was never told; nothing was taken.
        """
        if not told and not changes:
            return
        plain = self._plain
        if changes:
            _check(plain, changes)
        self._status = None
        if told:
            plain.update(told)
        if changes:
            _change(plain, changes)


def _check(plain: Plain, changes: Plain) -> None:
    """Whether every part that changes is there."""
    if changes.get(_HOST_CHANGE) is not None and _HOST not in plain:
        raise RemoteProtocolError(Reason.OUT_OF_ORDER, "a change of the host, which was never told")
    for where, key, word in _LISTS:
        if parts := changes.get(where):
            known = len(plain.get(key, ()))
            for change in parts:
                if change[SLOT_KEY] >= known:
                    detail = f"a change of {word} {change[SLOT_KEY]}, of which {known} were told"
                    raise RemoteProtocolError(Reason.OUT_OF_ORDER, detail)


def _change(plain: Plain, changes: Plain) -> None:
    if (change := changes.get(_HOST_CHANGE)) is not None:
        plain[_HOST].update(change)
    for where, key, _ in _LISTS:
        if parts := changes.get(where):
            present = plain[key]
            for change in parts:
                present[change.pop(SLOT_KEY)].update(change)
