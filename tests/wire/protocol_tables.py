"""The tables and diagrams of docs/protocol.md, drawn from the code.

``python -m tests.wire.protocol_tables`` rewrites them. Each stands between ``<!-- name -->`` and ``<!-- end -->``;
a test fails when one is not what the code says.
"""

import ast
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct, inspect

from tests.wire.strategies import declared_fields, members, reachable
from wire import deltas, limits
from wire.frames import AgentFrame, EventBody, HubFrame, UnknownBody
from wire.jobs import Sha256, Uuid
from wire.reasons import Reason
from wire.states import AGENT_TRANSITIONS, HUB_TRANSITIONS, Local, Trigger
from wire.worker import FromWorker, ToWorker

DOCUMENT = Path(__file__).parents[2] / "docs" / "protocol.md"
_NAMED = {
    inspect.type_info(Uuid).pattern: "UUID",  # type: ignore[attr-defined]
    inspect.type_info(Sha256).pattern: "SHA-256 hex",  # type: ignore[attr-defined]
}
_BIG = 2**53 - 1
_FLOAT_LIMIT = limits.FLOAT_MAX


def type_text(declared: inspect.Type) -> str:  # noqa: C901, PLR0911, PLR0912 - one case per kind of type
    """A type in words: what it is, and its bounds."""
    match declared:
        case inspect.StrType(pattern=str(pattern)):
            return _NAMED[pattern]
        case inspect.Metadata():
            return type_text(declared.type)
        case inspect.StrType():
            return f"text{_length(declared, 'characters')}"
        case inspect.BytesType():
            return f"bytes{_length(declared, '')}"
        case inspect.IntType() | inspect.FloatType():
            return f"{'int' if isinstance(declared, inspect.IntType) else 'float'}{_range(declared)}"
        case inspect.EnumType():
            return " \\| ".join(f"`{item.value}`" for item in declared.cls)
        case inspect.StructType():
            return declared.cls.__name__
        case inspect.ListType() | inspect.VarTupleType():
            return f"list{_length(declared, '')} of {type_text(declared.item_type)}"
        case inspect.DictType():
            key, value = type_text(declared.key_type), type_text(declared.value_type)
            return f"map{_length(declared, 'entries')} of {key} to {value}"
        case inspect.UnionType():
            if {item.cls for item in declared.types if isinstance(item, inspect.StructType)} > {UnknownBody}:
                return "a body, below"
            return " or ".join(type_text(item) for item in declared.types)
        case inspect.BoolType():
            return "bool"
        case inspect.NoneType():
            return "nil"
        case _:
            raise NotImplementedError(declared)


def _length(
    declared: inspect.StrType | inspect.BytesType | inspect.ListType | inspect.VarTupleType | inspect.DictType,
    unit: str,
) -> str:
    low, high = declared.min_length, declared.max_length
    if low is None and high is None:
        return ""
    span = f"{high}" if low == high else f"{low or 0}-{high}"
    return f" ({span} {unit})" if unit else f" ({span})"


def _range(declared: inspect.IntType | inspect.FloatType) -> str:
    low, high = declared.ge, declared.le
    if high is None or high == _FLOAT_LIMIT:
        return "" if low is None or low == -_FLOAT_LIMIT else f" from {low:g}"
    if high > _BIG:
        return f" from {low}" if low in {0, 1} else f", {'64' if high >= 2**62 else '53'} bits"
    return f" {low:g}-{high}" if isinstance(declared, inspect.FloatType) else f" {low}-{high}"


def summary(kind: type[Struct]) -> str:
    """The first paragraph of a struct's docstring, on one line."""
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split()).replace("``", "`")


def _default(item: inspect.Field) -> str:
    if item.required:
        return ""
    if item.default is msgspec.UNSET:
        return "as before"
    if item.default_factory is not msgspec.NODEFAULT:
        return f"`{item.default_factory()!r}`"
    default = item.default.value if isinstance(item.default, StrEnum) else item.default
    if default is None:
        return "nil"
    return "empty" if default in ("", b"", ()) else f"`{default}`".lower()


def struct_section(kind: type[Struct]) -> str:
    """A struct as heading, sentence and table of fields."""
    config = kind.__struct_config__
    tag = f", `{config.tag_field}` = `{config.tag}`" if config.tag is not None else ""
    lines = [f"**{kind.__name__}**{tag}: {summary(kind)}", ""]
    if kind.__module__ == deltas.__name__ and kind is not deltas.NodeChanges:
        place = f" `{deltas.SLOT_KEY}` is its place in the list, from 0." if "slot" in kind.__struct_fields__ else ""
        return f"{lines[0]} Each may be absent, which means as before; nil means unreadable.{place}"
    if declared_fields(kind):
        lines += ["| key | field | type | default |", "|---|---|---|---|"]
    lines += [
        f"| `{item.encode_name}` | {item.name} | {type_text(item.type)} | {_default(item)} |"
        for item in declared_fields(kind)
    ]
    return "\n".join(lines)


def structs(kinds: list[type[Struct]]) -> str:
    """Sections of several structs."""
    return "\n\n".join(map(struct_section, kinds))


def inner_structs() -> str:
    """The structs inside frames that are neither frames nor bodies."""
    unions = (AgentFrame, HubFrame, ToWorker, FromWorker)
    shown = {kind for union in (*unions, EventBody) for kind in members(union)}
    return structs(sorted(reachable(*unions) - shown, key=lambda kind: kind.__name__))


def diagram(table: Mapping[StrEnum, Mapping[Trigger, StrEnum]]) -> str:
    """A table of transitions as a Mermaid diagram."""
    names = {state: state.name.title().replace("_", "") for state in table}
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    {name}: {state.value}" for state, name in names.items()]
    lines.append(f"    [*] --> {next(iter(names.values()))}")
    for state, moves in table.items():
        arrows: dict[StrEnum, list[str]] = {}
        for trigger, after in moves.items():
            label = f"({trigger.value})" if isinstance(trigger, Local) else trigger.__name__
            arrows.setdefault(after, []).append(label)
        lines += [f"    {names[state]} --> {names[after]}: {', '.join(labels)}" for after, labels in arrows.items()]
    return "\n".join([*lines, "```"])


def limits_table() -> str:
    """Every constant of `wire.limits` with its value and its reason."""
    source = Path(limits.__file__).read_text(encoding="utf-8")
    body = ast.parse(source).body
    lines = ["| limit | value | what for |", "|---|---|---|"]
    for here, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(here, ast.Assign) or not isinstance(here.targets[0], ast.Name):
            continue
        name = here.targets[0].id
        reason = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            reason = " ".join(str(after.value.value).split())
        value = getattr(limits, name)
        shown = f"{value:,}" if isinstance(value, int) else f"{value}"
        lines.append(f"| {name} | {shown} | {reason} |")
    return "\n".join(lines)


def reasons_table() -> str:
    """Every numbered reason."""
    lines = ["| number | close code | name | what happened, what to do |", "|---|---|---|---|"]
    lines += [f"| {reason.value} | {reason.close_code} | {reason.name} | {reason.sentence} |" for reason in Reason]
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {
    "agent-frames": lambda: structs(members(AgentFrame)),
    "hub-frames": lambda: structs([kind for kind in members(HubFrame) if kind not in members(AgentFrame)]),
    "bodies": lambda: structs([kind for kind in members(EventBody) if kind is not UnknownBody]),
    "inner": inner_structs,
    "to-worker": lambda: structs(members(ToWorker)),
    "from-worker": lambda: structs(members(FromWorker)),
    "agent-states": lambda: diagram(AGENT_TRANSITIONS),  # type: ignore[arg-type]
    "hub-states": lambda: diagram(HUB_TRANSITIONS),  # type: ignore[arg-type]
    "limits": limits_table,
    "reasons": reasons_table,
}


def rewritten(text: str) -> str:
    """The document with every table as the code has it now."""
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda found, table=table: f"{found[1]}\n{table()}\n\n{found[2]}", text)  # type: ignore[misc]
        if count != 1:
            raise ValueError(f"{DOCUMENT.name}: {count} places for table '{name}', one is needed")
    return text


if __name__ == "__main__":
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
