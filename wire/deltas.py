"""What changed inside the parts of a picture: since minor version 1 a status says only the fields that moved.

A `NodeStatus` is told by its changed top-level fields; of these the host, the cards and the engines are large, and most
of them stands still. A change names its part by its place in the last list that was told, and only the fields that
differ; ``null`` means unreadable, an absent field "as before". When a list's members change, the list is told whole.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from wire.engines import EngineReading
from wire.limits import ENGINES_MAX, GPUS_MAX
from wire.readings import GpuReading, HostReading
from wire.status import NodeStatus

Part = TypeVar("Part", HostReading, GpuReading, EngineReading)

SLOT_KEY = "i"
"""On the wire: the part's place in its list, from 0."""


def _change_of(kind: type[Struct], name: str, slots: int = 0, key: str = "") -> type[Struct]:
    """The struct of a change in ``kind``: the same fields and keys, each of which may be absent.

    ``slots`` is the most parts a list may have, 0 for a part that stands alone; ``key`` the field that never changes.
    """
    fields: list[tuple[str, Any, Any]] = [
        (item.name, item.type | UnsetType, UNSET) for item in msgspec.structs.fields(kind) if item.name != key
    ]
    keys = {item.name: item.encode_name for item in msgspec.structs.fields(kind)}
    if slots:
        if SLOT_KEY in keys.values():
            raise TypeError(f"{kind.__name__} has a field with the key of a slot")
        keys["slot"] = SLOT_KEY
        fields.insert(0, ("slot", Annotated[int, Meta(ge=0, le=slots - 1)], msgspec.NODEFAULT))
    return msgspec.defstruct(
        name,
        fields,
        frozen=True,
        omit_defaults=True,
        rename=keys,
        module=__name__,
        namespace={"__doc__": f"The fields of a `{kind.__name__}` that changed."},
    )


if TYPE_CHECKING:

    class HostChange(Struct):
        """What changed of the host."""

        def __init__(self, **fields: object) -> None: ...

    class GpuChange(Struct):
        """What changed of one card."""

        slot: int

        def __init__(self, *, slot: int, **fields: object) -> None: ...

    class EngineChange(Struct):
        """What changed of one engine."""

        slot: int

        def __init__(self, *, slot: int, **fields: object) -> None: ...

else:
    HostChange = _change_of(HostReading, "HostChange")
    GpuChange = _change_of(GpuReading, "GpuChange", GPUS_MAX, "uuid")
    EngineChange = _change_of(EngineReading, "EngineChange", ENGINES_MAX, "engine")


class NodeChanges(Struct, frozen=True, omit_defaults=True, rename={"host": "h", "gpus": "g", "engines": "e"}):
    """Changes inside the parts of a picture; a part that is told whole beside it has none."""

    host: HostChange | None = None
    gpus: Annotated[tuple[GpuChange, ...], Meta(max_length=GPUS_MAX)] = ()
    engines: Annotated[tuple[EngineChange, ...], Meta(max_length=ENGINES_MAX)] = ()


NOTHING = NodeChanges()
"""No part changed inside."""


def difference(before: NodeStatus, after: NodeStatus) -> tuple[NodeStatus, NodeChanges]:
    """What to tell somebody who knows ``before``, so that they know ``after``."""
    told = after.changed_since(before)
    host = _differing(before.host, told.host) if before.host is not UNSET and told.host is not UNSET else None
    gpus = _by_slot(before.gpus, told.gpus, "uuid", GpuChange)
    engines = _by_slot(before.engines, told.engines, "engine", EngineChange)
    told = msgspec.structs.replace(
        told,
        host=told.host if host is None else UNSET,
        gpus=told.gpus if gpus is None else UNSET,
        engines=told.engines if engines is None else UNSET,
    )
    changes = NodeChanges(
        host=None if host is None else HostChange(**host), gpus=tuple(gpus or ()), engines=tuple(engines or ())
    )
    return told, changes


def _by_slot(
    before: Sequence[Part] | UnsetType, after: Sequence[Part] | UnsetType, key: str, kind: type[Any]
) -> list[Any] | None:
    """The changes of a list's parts; None when the list has to be told whole, or not at all."""
    if before is UNSET or after is UNSET:
        return None
    if [getattr(part, key) for part in before] != [getattr(part, key) for part in after]:
        return None
    changed = [(slot, _differing(*pair)) for slot, pair in enumerate(zip(before, after, strict=True))]
    return [kind(slot=slot, **fields) for slot, fields in changed if fields]


def _differing(before: Part, after: Part) -> dict[str, object]:
    return {name: value for name in after.__struct_fields__ if (value := getattr(after, name)) != getattr(before, name)}
