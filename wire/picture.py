"""A node's picture as its hub builds it up: one full status, then changes, each validated before it is taken over.

The picture is kept as it came, in plain maps under the wire's keys, because a change costs a few dictionary updates
that way; the typed `NodeStatus` is made only when somebody looks.
"""

from typing import Any

import msgspec
from msgspec import Struct

from wire.deltas import SLOT_KEY, NodeChanges
from wire.engines import EngineReading
from wire.errors import RemoteProtocolError
from wire.readings import GpuReading, HostReading
from wire.reasons import Reason
from wire.status import NodeStatus

Plain = dict[str, Any]
"""A map as it stands in a frame that was validated."""


def _keys_of(kind: type[Struct]) -> frozenset[str]:
    return frozenset(kind.__struct_encode_fields__)


_STATUS = dict(zip(NodeStatus.__struct_fields__, NodeStatus.__struct_encode_fields__, strict=True))
_CHANGES = dict(zip(NodeChanges.__struct_fields__, NodeChanges.__struct_encode_fields__, strict=True))
_HOST = _STATUS["host"]
_STATUS_KEYS = _keys_of(NodeStatus)
_HOST_KEYS = _keys_of(HostReading)
_LISTS = (
    (_CHANGES["gpus"], _STATUS["gpus"], _keys_of(GpuReading), "card"),
    (_CHANGES["engines"], _STATUS["engines"], _keys_of(EngineReading), "engine"),
)


class Picture:
    """The latest picture of one node. It changes in place; ``status`` is a value of its own and stays as it was.

    Args:
        plain: the ``status`` of a full frame, validated as a `NodeStatus`; the picture takes it over.
    """

    __slots__ = ("_plain", "_status")

    def __init__(self, plain: Plain) -> None:
        self._plain: Plain = {}
        self._status: NodeStatus | None = None
        self._tell(plain)

    @property
    def status(self) -> NodeStatus:
        """The whole picture now. Made anew after a change: ask for it when it is needed, not with every frame."""
        if self._status is None:
            self._status = msgspec.convert(self._plain, NodeStatus, builtin_types=(bytes,))
        return self._status

    def take(self, told: Plain, changes: Plain | None) -> None:
        """Take over what a delta frame told: its ``status`` and ``changes``, validated.

        Raises:
            RemoteProtocolError: it changes a part that was never told; nothing was taken.
        """
        if not told and not changes:
            return
        if changes:
            self._check(changes)
        self._status = None
        self._tell(told)
        if changes:
            self._change(changes)

    def _tell(self, told: Plain) -> None:
        if not told:
            return
        told = _known(told, _STATUS_KEYS)
        self._plain.update(told)
        if (host := told.get(_HOST)) is not None:
            self._plain[_HOST] = _known(host, _HOST_KEYS)
        for _, key, known, _ in _LISTS:
            if (parts := told.get(key)) is not None:
                self._plain[key] = [_known(part, known) for part in parts]

    def _check(self, changes: Plain) -> None:
        if changes.get(_CHANGES["host"]) is not None and _HOST not in self._plain:
            raise RemoteProtocolError(Reason.OUT_OF_ORDER, "a change of the host, which was never told")
        for where, key, _, word in _LISTS:
            known = len(self._plain.get(key, ()))
            for change in changes.get(where, ()):
                if change[SLOT_KEY] >= known:
                    detail = f"a change of {word} {change[SLOT_KEY]}, of which {known} were told"
                    raise RemoteProtocolError(Reason.OUT_OF_ORDER, detail)

    def _change(self, changes: Plain) -> None:
        if (change := changes.get(_CHANGES["host"])) is not None:
            self._plain[_HOST].update(_known(change, _HOST_KEYS))
        for where, key, known, _ in _LISTS:
            for change in changes.get(where, ()):
                self._plain[key][change.pop(SLOT_KEY)].update(_known(change, known))


def _known(plain: Plain, keys: frozenset[str]) -> Plain:
    """The fields this version reads. A peer may know more, or invent some: what nobody here reads is not kept."""
    return plain if keys.issuperset(plain) else {key: value for key, value in plain.items() if key in keys}
