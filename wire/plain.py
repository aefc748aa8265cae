"""Statuses as plain maps, for the hub: validated field by field like their structs, but only what was told is there.

A change costs a few dictionary updates that way, where structs would have to be compared field by field. The types are
made from the structs, so that nothing is declared twice; keys are the wire's own. Fields nobody here declares are left
out by the decoder: an agent that invents some in each frame fills nobody's memory.
"""

from typing import TYPE_CHECKING, Annotated, Any, Required, TypedDict

import msgspec
from msgspec import Meta, Struct

from wire.deltas import EngineChange, GpuChange, HostChange, NodeChanges
from wire.engines import EngineReading
from wire.events import MonotonicNs, Seq, UnixMs
from wire.limits import ENGINES_MAX, GPUS_MAX
from wire.readings import GpuReading, HostReading
from wire.status import NodeStatus

Plain = dict[str, Any]
"""A map as it stands in a frame that was validated."""


def _plain(kind: type[Struct], **other: Any) -> Any:
    """The map of a struct: its keys and types, each of which may be absent unless it is required."""
    fields = {
        item.encode_name: Required[item.type] if item.required else other.get(item.name, item.type)
        for item in msgspec.structs.fields(kind)
    }
    # Made at run time: nobody but the decoder looks at the type.
    return TypedDict(f"Plain{kind.__name__}", fields, total=False)  # type: ignore[operator]


if TYPE_CHECKING:
    PlainNodeStatus = Plain
    PlainChanges = Plain
else:
    PlainNodeStatus = _plain(
        NodeStatus,
        host=_plain(HostReading),
        gpus=Annotated[list[_plain(GpuReading)], Meta(max_length=GPUS_MAX)],
        engines=Annotated[list[_plain(EngineReading)], Meta(max_length=ENGINES_MAX)],
    )
    PlainChanges = _plain(
        NodeChanges,
        host=_plain(HostChange) | None,
        gpus=Annotated[list[_plain(GpuChange)], Meta(max_length=GPUS_MAX)],
        engines=Annotated[list[_plain(EngineChange)], Meta(max_length=ENGINES_MAX)],
    )


class PlainStatus(
    Struct,
    frozen=True,
    omit_defaults=True,
    tag_field="t",
    tag="st",
    rename={"status_seq": "s", "full": "f", "time_ms": "w", "monotonic_ns": "m", "status": "b", "changes": "c"},
):
    """A `wire.frames.Status`, its content as plain maps. Decoded, never sent."""

    status_seq: Seq
    full: bool
    time_ms: UnixMs
    monotonic_ns: MonotonicNs
    status: PlainNodeStatus
    changes: PlainChanges | None = None
