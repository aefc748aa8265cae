"""Hypothesis strategies for every wire struct, derived from its own declaration: bounds, patterns, unions."""

from collections.abc import Callable
from enum import Enum
from typing import Any, get_args

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec import UNSET, Struct, inspect

from wire.frames import STREAMS_OF, Event, Events, Gap, HeldRange, Hello, Stream, UnknownBody
from wire.jobs import Sha256, Uuid

UUIDS = st.uuids().map(str)
SHA256S = st.binary(min_size=32, max_size=32).map(bytes.hex)
_PATTERNS = {
    inspect.type_info(Uuid).pattern: UUIDS,  # type: ignore[attr-defined]
    inspect.type_info(Sha256).pattern: SHA256S,  # type: ignore[attr-defined]
}
_ITEMS_MAX = 4
"""Collections stay small: their limits have tests of their own."""
_OPTIONAL_MAX = 8
_CHARS_MAX = 40
_SEQ_MAX = 2**63 - 1


def patiently(examples: int) -> settings:
    """So many examples, however busy the machine is: time is not what these tests are about."""
    return settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def values(declared: inspect.Type) -> st.SearchStrategy[Any]:  # noqa: C901, PLR0911, PLR0912 - one case per kind of type
    """Values that ``declared`` allows."""
    match declared:
        case inspect.StrType(pattern=str(pattern)):
            return _PATTERNS[pattern]
        case inspect.StrType():
            return st.text(min_size=declared.min_length or 0, max_size=min(declared.max_length or 0, _CHARS_MAX))
        case inspect.BytesType():
            size_max = _CHARS_MAX if declared.max_length is None else declared.max_length
            return st.binary(min_size=declared.min_length or 0, max_size=min(size_max, 64))
        case inspect.IntType():
            return st.integers(min_value=declared.ge, max_value=declared.le)
        case inspect.FloatType():
            return st.floats(min_value=declared.ge, max_value=declared.le, allow_nan=False, allow_infinity=False)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.EnumType():
            return st.sampled_from(list(declared.cls))
        case inspect.ListType():
            return st.lists(values(declared.item_type), min_size=declared.min_length or 0, max_size=_ITEMS_MAX)
        case inspect.VarTupleType():
            return st.lists(values(declared.item_type), min_size=declared.min_length or 0, max_size=_ITEMS_MAX).map(
                tuple
            )
        case inspect.DictType():
            return st.dictionaries(values(declared.key_type), values(declared.value_type), max_size=_ITEMS_MAX)
        case inspect.UnionType():
            return st.one_of([values(item) for item in declared.types])
        case inspect.StructType():
            return structs(declared.cls)
        case inspect.Metadata():
            return values(declared.type)
        case _:
            raise NotImplementedError(declared)


def structs(kind: type[Struct]) -> st.SearchStrategy[Any]:
    """Instances of a wire struct, with the laws its fields obey together."""
    special: dict[type[Struct], Callable[[], st.SearchStrategy[Any]]] = {
        Gap: gaps,
        Event: events,
        Events: event_frames,
        HeldRange: held_ranges,
        UnknownBody: unknown_bodies,
    }
    if kind in special:
        return special[kind]()
    if kind is Hello:
        return _fields(Hello).filter(_names_nothing_twice).map(lambda fields: Hello(**fields))
    return _fields(kind).map(lambda fields: kind(**fields))


@st.composite
def _fields(draw: st.DrawFn, kind: type[Struct]) -> dict[str, Any]:
    """What is required, and a few of what is not: some structs have dozens of fields."""
    fields = declared_fields(kind)
    optional = [item.name for item in fields if not item.required]
    chosen = draw(st.sets(st.sampled_from(optional), max_size=_OPTIONAL_MAX)) if optional else set()
    return {item.name: draw(values(item.type)) for item in fields if item.required or item.name in chosen}


def declared_fields(kind: type[Struct]) -> tuple[inspect.Field, ...]:
    """The fields of a struct with their types, keys and defaults."""
    declared = inspect.type_info(kind)
    assert isinstance(declared, inspect.StructType)
    return declared.fields


def _names_nothing_twice(fields: dict[str, Any]) -> bool:
    try:
        Hello(**fields)
    except ValueError:
        return False
    return True


def held_ranges() -> st.SearchStrategy[HeldRange]:
    """Ranges with first <= last."""
    bounds = st.tuples(st.integers(1, _SEQ_MAX), st.integers(1, _SEQ_MAX)).map(sorted)
    return st.builds(
        lambda epoch, stream, span: HeldRange(epoch=epoch, stream=stream, first=span[0], last=span[1]),
        UUIDS,
        st.sampled_from(Stream),
        bounds,
    )


def gaps(last: int | None = None) -> st.SearchStrategy[Gap]:
    """Gaps whose count is their length, ending at ``last`` if given."""
    ends = st.just(last) if last else st.integers(1, _SEQ_MAX)
    return ends.flatmap(
        lambda end: st.builds(
            lambda first, reason: Gap(first=first, last=end, count=end - first + 1, reason=reason),
            st.integers(1, end),
            st.text(max_size=_CHARS_MAX),
        )
    )


def unknown_bodies() -> st.SearchStrategy[UnknownBody]:
    """Bodies of a kind that no version has: the bytes a newer peer would have packed."""
    kinds = st.text(min_size=1, max_size=8).map(lambda text: f"~{text}")
    plain = st.dictionaries(
        st.text(max_size=4).filter(lambda key: key != "k"), st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=9)
    )
    return st.builds(
        lambda kind, fields: UnknownBody(kind=kind, packed=msgspec.msgpack.encode({"k": kind, **fields})), kinds, plain
    )


@st.composite
def events(draw: st.DrawFn, stream: Stream | None = None) -> Event:
    """An event, of a body that may stand in ``stream``."""
    seq = draw(st.integers(1, _SEQ_MAX))
    kinds = [kind for kind, streams in STREAMS_OF.items() if stream is None or stream in streams]
    kind = draw(st.sampled_from(kinds))
    body = draw(gaps(seq) if kind is Gap else structs(kind))
    return Event(
        seq=seq,
        time_ms=draw(st.integers(0, 2**53)),
        monotonic_ns=draw(st.integers(0, _SEQ_MAX)),
        body=body,
    )


@st.composite
def event_frames(draw: st.DrawFn) -> Events:
    """An events frame whose bodies all belong to its stream."""
    stream = draw(st.sampled_from(Stream))
    return Events(epoch=draw(UUIDS), stream=stream, events=draw(st.lists(events(stream), min_size=1, max_size=3)))


def members(union: object) -> list[type[Struct]]:
    """The structs of a union of frames."""
    return list(get_args(union))


def reachable(*unions: object) -> set[type[Struct]]:
    """Every struct that stands in these unions, at any depth."""
    found: set[type[Struct]] = set()
    waiting = [kind for union in unions for kind in members(union)]
    while waiting:
        kind = waiting.pop()
        if kind in found:
            continue
        found.add(kind)
        waiting += [inner for item in declared_fields(kind) for inner in _structs_in(item.type)]
    return found


def _structs_in(declared: inspect.Type) -> list[type[Struct]]:
    match declared:
        case inspect.StructType():
            return [declared.cls]
        case inspect.UnionType():
            return [kind for item in declared.types for kind in _structs_in(item)]
        case inspect.ListType() | inspect.VarTupleType():
            return _structs_in(declared.item_type)
        case _:
            return []


def plain(value: object) -> object:
    """A wire value under its Python names, as JSON can hold it: structs by type name, bytes as hex."""
    match value:
        case Struct():
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            return {type(value).__name__: {name: plain(item) for name, item in fields.items() if item is not UNSET}}
        case Enum():
            return value.value
        case bytes():
            return f"hex:{value.hex()}"
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case _:
            return value
