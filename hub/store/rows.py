"""Between records and rows, one function each way. Columns have the names of the fields, ``bytes_`` aside."""

from enum import StrEnum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import RowMapping

from hub.access.records import ApiToken, User
from hub.access.roles import Role
from hub.alerts.facts import Rule, Severity
from hub.alerts.records import Alert, AlertState, Channel, Kind, Notice, NoticeState, Phase, Watched
from hub.ssh.cause import Cause
from hub.ssh.reach import Basis, Reach, Source, State, Suggestion
from hub.ssh.record import Origin, Record
from hub.ssh.targets import Target
from hub.store.records import Agent, Attempt, AttemptState, Circuit, EnrollToken, Job
from wire.jobs import Input, JobState, Output

Kept = TypeVar("Kept", bound=Struct)

_LABELS = dict[str, str]
_TIMINGS = dict[str, float]
JSON_FIELDS: dict[type[Struct], dict[str, Any]] = {
    Agent: {"labels": _LABELS, "capabilities": tuple[str, ...]},
    EnrollToken: {"labels": _LABELS},
    Job: {"inputs": tuple[Input, ...], "node_labels": _LABELS, "timings_ms": _TIMINGS},
    Attempt: {"outputs": tuple[Output, ...], "timings_ms": _TIMINGS},
    Circuit: {"node_labels": _LABELS},
    Reach: {
        "target": Target | None,
        "host_keys": tuple[str, ...],
        "jump_keys": dict[str, tuple[str, ...]],
        "suggested": Suggestion | None,
        "basis": Basis | None,
    },
    Record: {"argv": tuple[str, ...], "origin": Origin, "differs": tuple[str, ...]},
    ApiToken: {"areas": tuple[str, ...]},
    Watched: {"bad_starts": tuple[int, ...]},
    Alert: {"subjects": tuple[str, ...]},
}
"""Fields kept as JSON text, with their types."""
ENUM_FIELDS: dict[type[Struct], dict[str, type[StrEnum]]] = {
    Job: {"state": JobState},
    Attempt: {"state": AttemptState},
    Reach: {"source": Source, "pinned_by": Source, "state": State, "cause": Cause},
    Record: {"cause": Cause},
    User: {"role": Role},
    ApiToken: {"role": Role},
    Watched: {"rule": Rule, "phase": Phase},
    Alert: {"rule": Rule, "severity": Severity, "state": AlertState},
    Channel: {"severity": Severity},
    Notice: {"kind": Kind, "severity": Severity, "state": NoticeState},
}


def to_row(record: Struct) -> dict[str, Any]:
    """A record's values by column."""
    structured = JSON_FIELDS.get(type(record), {})
    row = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name in structured:
            value = msgspec.json.encode(value).decode()
        row["bytes" if name == "bytes_" else name] = value
    return row


def from_row(kind: type[Kept], row: RowMapping) -> Kept:
    """The record of a row; columns the record does not have are left out."""
    structured = JSON_FIELDS.get(kind, {})
    enums = ENUM_FIELDS.get(kind, {})
    values = {}
    for name in kind.__struct_fields__:
        column = "bytes" if name == "bytes_" else name
        if column not in row:
            continue  # a listing without the bulk: the field keeps its default
        value = row[column]
        if name in structured:
            value = msgspec.json.decode(value, type=structured[name])
        elif name in enums and value is not None:
            value = enums[name](value)
        values[name] = value
    return kind(**values)
