import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from agent.backoff import Kind
from agent.config import HubUrl
from agent.enroll import (
    ANSWER_CONTEXT,
    REQUEST_CONTEXT,
    EnrolRefused,
    Token,
    enrol,
    enrollment_id_for,
    hub_of,
    parse_token,
    read_token,
)
from agent.errors import ConfigFault
from agent.hub_http import HttpClient
from agent.identity import Enrolled, load_key, verify
from tests.agent.small_hub import HUB_ID, SmallHub, running_hub

AGENT_ID = "01890a5d-ac96-774b-bcce-b302099a0001"
ENROLLMENT = "0f0e0d0c-0b0a-4908-8706-050403020100"


def packed(**fields: Any) -> str:
    return "pw1." + base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


def token_of(hub: SmallHub, secret: str = "s3cret") -> Token:  # noqa: S107 - a test's
    return Token(url=hub.url, fingerprint=hub.fingerprint, secret=secret)


@pytest.fixture
async def hub() -> AsyncIterator[SmallHub]:
    async with running_hub() as running:
        yield running


async def ask(hub: SmallHub, folder: Path, token: Token | None = None) -> Enrolled:
    async with HttpClient(ca=None, proxies=False) as client:
        return await enrol(
            client,
            hub=HubUrl(base=hub.url),
            token=token or token_of(hub),
            enrollment_id=ENROLLMENT,
            key=load_key(folder),
            name="node-a",
        )


def answering(hub: SmallHub, **change: Any) -> None:
    """The hub enrols; ``change`` falsifies parts of its answer."""

    async def handle(request: web.Request) -> web.Response:
        body = await request.json()
        public_key = bytes.fromhex(body["public_key"])
        message = REQUEST_CONTEXT + body["enrollment_id"].encode() + public_key
        assert verify(public_key, message, bytes.fromhex(body["signature"]))
        assert (body["secret"], body["name"]) == ("s3cret", "node-a")
        signed = ANSWER_CONTEXT + body["enrollment_id"].encode() + AGENT_ID.encode() + public_key
        answer = {
            "agent_id": AGENT_ID,
            "hub_id": HUB_ID,
            "hub_key": hub.public_key.hex(),
            "signature": hub.key.sign(signed).hex(),
        }
        return web.json_response({**answer, **change}, status=201)

    hub.enroll_handler = handle


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_a_token_is_read_whatever_surrounds_it(tmp_path: Path) -> None:
    token = Token(url="https://hub.example.org", fingerprint="ab" * 32, secret="xyz")  # noqa: S106 - a test's
    text = packed(u=token.url, f=token.fingerprint, s=token.secret)
    assert parse_token(f"  {text}\n", "x") == token
    (tmp_path / "token").write_text(text + "\n")
    assert read_token(tmp_path / "token") == token


@given(st.text(max_size=200))
def test_no_text_makes_reading_a_token_fail_otherwise(text: str) -> None:
    for attempt in (text, "pw1." + text):
        try:
            parse_token(attempt, "--token-file t")
        except ConfigFault as fault:
            assert "--token-file t holds no enrolment token" in str(fault)  # noqa: PT017 - most texts are no token


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "pw1.",
        "pw1.%%%",
        packed(u="https://h", f="ab" * 32)[:-1],
        packed(u="https://h", f="short", s="x"),
        packed(u="", f="ab" * 32, s="x"),
        "pw1." + "A" * 5000,
    ],
)
def test_a_token_that_cannot_be_used_is_said_without_repeating_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(ConfigFault, match="holds no enrolment token") as fault:
        read_token(tmp_path / "token")
    assert fault.value.exit_code == 64
    assert len(text) < 8 or text not in str(fault.value)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigFault, match=r"--token-file .*none cannot be read: No such file"):
        read_token(tmp_path / "none")


def test_the_hub_of_the_token_serves_where_none_is_configured() -> None:
    token = Token(url="https://hub.example.org", fingerprint="ab" * 32, secret="xyz")  # noqa: S106 - a test's
    assert hub_of(token, None, insecure=False).base == "https://hub.example.org"
    assert hub_of(token, HubUrl(base="https://other"), insecure=False).base == "https://other"
    plain = Token(url="http://10.0.0.1", fingerprint="ab" * 32, secret="xyz")  # noqa: S106 - a test's
    with pytest.raises(ConfigFault, match="the hub's address in the token"):
        hub_of(plain, None, insecure=False)


def test_the_enrolment_id_is_kept_for_its_token(tmp_path: Path) -> None:
    first = Token(url="https://h", fingerprint="ab" * 32, secret="one")  # noqa: S106 - a test's
    other = Token(url="https://h", fingerprint="ab" * 32, secret="two")  # noqa: S106 - a test's
    begun = enrollment_id_for(tmp_path, first)
    assert enrollment_id_for(tmp_path, first) == begun
    assert b"one" not in (tmp_path / "enrollment.json").read_bytes()
    assert enrollment_id_for(tmp_path, other) != begun
    (tmp_path / "enrollment.json").write_bytes(b"torn")
    assert enrollment_id_for(tmp_path, first)


# --- asking the hub -------------------------------------------------------------------------------------------------


async def test_enrolment_pins_the_hubs_key(hub: SmallHub, tmp_path: Path) -> None:
    answering(hub)
    enrolled = await ask(hub, tmp_path)
    assert enrolled == Enrolled(
        agent_id=AGENT_ID, hub_id=HUB_ID, hub_key=hub.public_key.hex(), hub_url=hub.url, generation=0
    )
    assert enrolled.hub_fingerprint == hashlib.sha256(hub.public_key).hexdigest()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"signature": "00" * 64}, "enrol_bad_signature"),
        ({"agent_id": "01890a5d-ac96-774b-bcce-b302099a0002"}, "enrol_bad_signature"),
        ({"hub_key": "00" * 32}, "enrol_wrong_hub"),
        ({"agent_id": 5}, "enrol_malformed"),
        ({"hub_key": "zz"}, "enrol_malformed"),
    ],
)
async def test_an_answer_that_is_not_the_hubs_is_not_believed(
    hub: SmallHub, tmp_path: Path, change: dict[str, Any], name: str
) -> None:
    answering(hub, **change)
    with pytest.raises(EnrolRefused) as refused:
        await ask(hub, tmp_path)
    assert (refused.value.fault.name, refused.value.fault.loud) == (name, True)


@pytest.mark.parametrize(
    ("status", "body", "kind", "name", "says"),
    [
        (
            401,
            {"code": "token_expired", "detail": "it was good until noon"},
            Kind.REFUSED,
            "enrol_token_expired",
            "noon",
        ),
        (401, {"code": "token_used_up"}, Kind.REFUSED, "enrol_token_used_up", "no reason"),
        (401, "not json", Kind.REFUSED, "enrol_unknown", "no reason"),
        (429, {}, Kind.UNREACHABLE, "http_429", "now"),
        (503, {"title": "restarting"}, Kind.UNREACHABLE, "http_503", "restarting"),
    ],
)
async def test_a_refusal_is_told_with_its_code_and_tried_again(
    hub: SmallHub, tmp_path: Path, status: int, body: Any, kind: Kind, name: str, says: str
) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    hub.enroll_handler = handle
    with pytest.raises(EnrolRefused, match=says) as refused:
        await ask(hub, tmp_path)
    assert (refused.value.fault.kind, refused.value.fault.name) == (kind, name)
    assert "s3cret" not in str(refused.value)


async def test_an_endless_answer_is_cut(hub: SmallHub, tmp_path: Path) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * 200_000)

    hub.enroll_handler = handle
    with pytest.raises(EnrolRefused, match="more than"):
        await ask(hub, tmp_path)


async def test_a_hub_that_is_away_is_unreachable(hub: SmallHub, tmp_path: Path) -> None:
    await hub.stop()
    with pytest.raises(EnrolRefused, match="cannot be reached") as refused:
        await ask(hub, tmp_path)
    assert refused.value.fault.kind is Kind.UNREACHABLE
