import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.logs.records import RECORD_BYTES_MAX, Line, cut, parsed, record, size_of, time_of
from wire import codec
from wire.frames import Event, Level, LogRecord

NOW_MS = 1_790_000_000_000


def told(text: str) -> tuple[str, Level, dict[str, object], int]:
    body, time_ms = record("file:x", parsed(text), NOW_MS)
    return body.text, body.level, dict(body.fields), time_ms


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("just words", ("just words", Level.INFO, {})),
        ('{"event": "a.b", "level": "warning", "n": 3}', ("a.b", Level.WARNING, {"n": 3})),
        ('{"msg": "pino", "level": 50, "pid": 7}', ("pino", Level.ERROR, {"pid": 7})),
        ('{"message": "m", "severity": "CRITICAL"}', ("m", Level.ERROR, {})),
        ('{"message": "m", "level": "strange"}', ("m", Level.INFO, {})),
        ('{"no": "message"}', ('{"no": "message"}', Level.INFO, {})),
        ('{"broken": ', ('{"broken": ', Level.INFO, {})),
        ('["a"]', ('["a"]', Level.INFO, {})),
        ('{"msg": "m", "deep": {"a": [1]}}', ("m", Level.INFO, {"deep": '{"a":[1]}'})),
        (
            '{"msg": "m", "big": 123456789012345678901234567890}',
            ("m", Level.INFO, {"big": "123456789012345678901234567890"}),
        ),
        (
            "2026-11-30T12:00:00.1Z [error    ] gone wrong  n=1",
            ("2026-11-30T12:00:00.1Z [error    ] gone wrong  n=1", Level.ERROR, {}),
        ),
    ],
)
def test_a_line_is_understood(line: str, expected: tuple[str, Level, dict[str, object]]) -> None:
    assert told(line)[:3] == expected


@pytest.mark.parametrize(
    "time", [NOW_MS / 1000 - 5, NOW_MS - 5000, (NOW_MS - 5000) * 1000, (NOW_MS - 5000) * 1_000_000]
)
def test_a_number_of_time_is_told_by_its_size(time: float) -> None:
    assert told(json.dumps({"msg": "m", "ts": time})) == ("m", Level.INFO, {}, NOW_MS - 5000)


def test_a_near_time_is_the_records_own_and_a_far_one_a_field() -> None:
    assert time_of("2026-11-30T12:00:00.250Z") == time_of("2026-11-30 13:00:00,250+01:00") == 1_796_040_000_250
    old = '{"msg": "m", "time": "2020-01-01T00:00:00Z"}'
    assert told(old) == ("m", Level.INFO, {"time": "2020-01-01T00:00:00Z"}, NOW_MS)
    line = Line("m", time_ms=NOW_MS - 86_400_000)
    body, time_ms = record("unit:x", line, NOW_MS)
    assert (dict(body.fields), time_ms) == ({"time_ms": NOW_MS - 86_400_000}, NOW_MS)


@pytest.mark.parametrize("time", ["", "yesterday", True, None, [], 1e300, float("nan"), -1, "0001-01-01T00:00:00"])
def test_what_is_no_time_is_none(time: object) -> None:
    assert time_of(time) is None or isinstance(time_of(time), int)


def test_secrets_stay_on_the_node() -> None:
    line = json.dumps(
        {
            "msg": "using pw1.eyJ1IjoiaHR0cDovLzEyNy4wLjAuMSJ9 and Bearer abcdefghijklmnopq, at pwj.0190.1.abcdef0123",
            "fetch_token": "hunter2",
            "Authorization": "hunter2",
            "password": "hunter2",
            "header": "authorization: bearer hunter2hunter2",
            "token_file": "/etc/provewire/token",
        }
    )
    body, _ = record("file:x", parsed(line), NOW_MS)
    assert body.text == "using [not shipped] and [not shipped], at [not shipped]"
    assert "hunter2" not in repr(body)
    assert "pw1" not in repr(body)
    assert "/etc/provewire/token" in body.fields.values()  # where it is, is no secret


def test_what_is_cut_off_is_said() -> None:
    body, _ = record("file:x", Line("ä" * 10_000), NOW_MS)
    assert body.text.endswith("bytes cut off]")
    assert size_of(body) <= RECORD_BYTES_MAX
    assert cut("short", 100) == "short"


@given(
    st.text(max_size=20_000) | st.binary(max_size=9000).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.dictionaries(
        st.text(max_size=300),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3000),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
            max_leaves=8,
        ),
        max_size=80,
    ),
)
def test_whatever_it_says_a_record_fits_the_wire_and_its_bound(text: str, fields: dict[str, object]) -> None:
    body, time_ms = record("file:/some/where", Line(text, Level.INFO, None, fields), NOW_MS)
    packed = codec.encode_event(Event(seq=1, time_ms=time_ms, monotonic_ns=1, body=body))
    assert codec.decode_event(packed).body == body
    assert isinstance(body, LogRecord)
    assert len(packed) <= RECORD_BYTES_MAX
    assert len(packed) <= size_of(body)


@given(st.text(max_size=500) | st.recursive(st.integers() | st.text(), st.lists, max_leaves=5).map(json.dumps))
def test_no_line_is_too_strange_to_be_parsed(text: str) -> None:
    assert isinstance(parsed(text), Line)
    assert isinstance(parsed("{" + text), Line)
    assert isinstance(parsed("{" * 5000), Line)
