"""A status outside of a session is believed only as the agent's own, and of now."""

import base64
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.examples import AGENT, CUZK, EPOCH, GPUS_READ, JOB
from tests.wire.pair import AGENT_KEY, HUB_KEY, agent_sign, hub_sign, verify
from tests.wire.strategies import patiently
from wire.errors import RemoteProtocolError
from wire.reasons import Reason
from wire.signed_status import CONTEXT, NONCE_BYTES, PREFIX, SignedStatus, read, signed
from wire.status import NodeStatus

NONCE = b"n" * NONCE_BYTES
STATUS = SignedStatus(
    agent_id=AGENT,
    epoch=EPOCH,
    boot_id="b0071d",
    nonce=NONCE,
    time_ms=1,
    monotonic_ns=2,
    status=NodeStatus(hostname="gpu-7", engines=[CUZK]).merged_into(GPUS_READ),
)


def taken(text: str, **changes: Any) -> SignedStatus:
    known = {"nonce": NONCE, "agent_id": AGENT, "agent_key": AGENT_KEY, "verify": verify}
    return read(text, **{**known, **changes})


def test_what_the_agent_signed_is_read() -> None:
    text = signed(STATUS, agent_sign)
    assert text.isprintable()
    assert " " not in text
    found = taken(f"  {text}\n")
    assert msgspec.structs.replace(found, signature=b"") == STATUS


@pytest.mark.parametrize(
    "wrong",
    [{"nonce": b"x" * NONCE_BYTES}, {"agent_id": JOB}, {"agent_key": HUB_KEY}],
    ids=["an old one", "another node's", "another key's"],
)
def test_anything_else_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        taken(signed(STATUS, agent_sign), **wrong)
    assert refused.value.reason == Reason.BAD_SIGNATURE


def test_a_status_changed_on_the_way_is_refused() -> None:
    data = msgpack.unpackb(base64.urlsafe_b64decode(signed(STATUS, agent_sign).removeprefix(PREFIX)))
    changes: list[dict[str, Any]] = [{"w": 9}, {"new": 1}, {"sig": b""}, {"b": {}}]
    for change in changes:
        text = PREFIX + base64.urlsafe_b64encode(msgpack.packb({**data, **change})).decode()
        with pytest.raises(RemoteProtocolError):
            taken(text)


def test_a_signature_of_a_handshake_is_none_of_a_status() -> None:
    assert CONTEXT not in {b"provewire hello v1\0", b"provewire welcome v1\0"}
    with pytest.raises(RemoteProtocolError):
        taken(signed(STATUS, hub_sign))


@patiently(200)
@given(
    st.one_of(
        st.text(max_size=100),
        st.binary(max_size=200).map(lambda data: PREFIX + base64.urlsafe_b64encode(data).decode()),
    )
)
def test_garbage_is_the_nodes_fault_and_nothing_more(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        taken(text)
