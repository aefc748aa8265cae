"""docs/protocol.md says what the code does."""

import re

from tests.wire.protocol_tables import DOCUMENT, TABLES, limits_table, reasons_table, rewritten
from tests.wire.strategies import members, reachable
from wire.frames import AgentFrame, EventBody, HubFrame, UnknownBody
from wire.handshake import HELLO_CONTEXT, WELCOME_CONTEXT
from wire.limits import FRAME_BYTES_MAX, FRAME_BYTES_UNAUTHENTICATED_MAX, HANDSHAKE_S, PROTOCOL
from wire.worker import LENGTH_BYTES, FromWorker, ToWorker

TEXT = DOCUMENT.read_text(encoding="utf-8")


def test_every_table_is_what_the_code_says() -> None:
    assert rewritten(TEXT) == TEXT, "run python -m tests.wire.protocol_tables"


def test_every_frame_body_and_struct_has_its_place() -> None:
    unions = (AgentFrame, HubFrame, ToWorker, FromWorker)
    kinds = reachable(*unions) | set(members(EventBody)) - {UnknownBody}
    headings = re.findall(r"^\*\*(\w+)\*\*", TEXT, re.MULTILINE)
    assert {kind.__name__ for kind in kinds} - {"UnknownBody"} == set(headings)
    doubled = {name for name in headings if headings.count(name) > 1}
    assert doubled == set()


def test_the_prose_names_the_true_constants() -> None:
    for context in (HELLO_CONTEXT, WELCOME_CONTEXT):
        assert f'"{context[:-1].decode()}" 00' in TEXT
    assert PROTOCOL in TEXT
    assert f"{FRAME_BYTES_MAX // 1024} KiB" in TEXT
    assert f"{FRAME_BYTES_UNAUTHENTICATED_MAX // 1024} KiB" in TEXT
    assert f"{HANDSHAKE_S:g} s" in TEXT
    assert f"{LENGTH_BYTES} bytes, big-endian" in TEXT


def test_every_limit_and_reason_says_what_it_is_for() -> None:
    rows = re.findall(r"^\| (\w+) \| .* \|(.*)\|$", limits_table() + "\n" + reasons_table(), re.MULTILINE)
    assert len(rows) > 50
    assert [name for name, reason in rows if not reason.strip()] == []


def test_no_table_is_left_empty() -> None:
    assert all(len(table()) > 100 for table in TABLES.values())
