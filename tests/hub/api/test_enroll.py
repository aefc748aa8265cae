"""Enrolment: single use, limited time, revocation, and asking again."""

import base64
import json
import uuid
from typing import Any

import pytest
import structlog.testing
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hub import ports
from hub.keys import verify_signature
from tests.hub.api.conftest import Reply, Start, Web
from tests.hub.rig import FakeClock


class Node:
    """What a node keeps while it enrols."""

    def __init__(self, name: str = "node-a") -> None:
        self.key = Ed25519PrivateKey.generate()
        self.name = name
        self.enrollment_id = str(uuid.uuid4())

    @property
    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes_raw()

    def request(self, secret: str, changes: dict[str, Any]) -> dict[str, Any]:
        message = b"provewire enroll v1\0" + self.enrollment_id.encode() + self.public_key
        body = {
            "secret": secret,
            "enrollment_id": self.enrollment_id,
            "public_key": self.public_key.hex(),
            "name": self.name,
            "signature": self.key.sign(message).hex(),
        }
        return {**body, **changes}

    async def enroll(self, web: Web, secret: str, changes: dict[str, Any] | None = None) -> Reply:
        return await web.ask("POST", "/api/v1/enroll", stranger=True, json=self.request(secret, changes or {}))


async def token(web: Web, **wanted: Any) -> tuple[str, dict[str, Any]]:
    """A new token: its secret and what was answered."""
    reply = await web.ask("POST", "/api/v1/enroll-tokens", json=wanted)
    assert reply.status == 201, reply.body
    made: dict[str, Any] = reply.json
    body = made["token"].removeprefix("pw1.")
    carried = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert carried["u"] == web.app[ports.BASE_URL][0]
    assert carried["f"] == web.app[ports.KEYS].fingerprint
    return carried["s"], made


async def test_a_node_enrols_and_can_check_who_answered(web: Web) -> None:
    secret, _ = await token(web)
    node = Node()
    reply = await node.enroll(web, secret)
    assert reply.status == 201
    answer = reply.json
    hub_key = bytes.fromhex(answer["hub_key"])
    said = b"provewire enrolled v1\0" + node.enrollment_id.encode() + answer["agent_id"].encode() + node.public_key
    assert verify_signature(hub_key, said, bytes.fromhex(answer["signature"]))
    listed = (await web.ask("GET", "/api/v1/nodes")).json["nodes"]
    assert [(one["id"], one["name"], one["state"]) for one in listed] == [(answer["agent_id"], "node-a", "never")]


async def test_a_token_is_good_for_as_many_nodes_as_it_says(web: Web) -> None:
    secret, made = await token(web, uses=2)
    assert [(await Node().enroll(web, secret)).status for _ in range(2)] == [201, 201]
    refused = await Node().enroll(web, secret)
    assert (refused.status, refused.code) == (401, "token_used_up")
    (shown,) = [
        one for one in (await web.ask("GET", "/api/v1/enroll-tokens")).json["tokens"] if one["id"] == made["id"]
    ]
    assert (shown["uses"], shown["uses_max"]) == (2, 2)
    assert "secret" not in json.dumps(shown)


async def test_asking_again_gives_the_same_agent_and_uses_nothing_up(web: Web) -> None:
    secret, _ = await token(web)
    node = Node()
    first, again = await node.enroll(web, secret), await node.enroll(web, secret)
    assert first.json == again.json
    assert again.status == 201


async def test_the_same_enrolment_id_with_another_key_is_another_node(web: Web) -> None:
    secret, _ = await token(web, uses=2)
    node, thief = Node(), Node()
    await node.enroll(web, secret)
    thief.enrollment_id = node.enrollment_id
    refused = await thief.enroll(web, secret)
    assert (refused.status, refused.code) == (401, "key_in_use")


async def test_a_token_ends_with_its_time(start: Start) -> None:
    web = await start(still=True)
    secret, _ = await token(web, ttl_s=60)
    assert isinstance(web.clock, FakeClock)
    web.clock.move(61)
    refused = await Node().enroll(web, secret)
    assert (refused.status, refused.code) == (401, "token_expired")
    assert "expired" in refused.json["detail"]


async def test_a_revoked_token_is_refused(web: Web) -> None:
    secret, made = await token(web)
    assert (await web.ask("DELETE", f"/api/v1/enroll-tokens/{made['id']}")).status == 200
    refused = await Node().enroll(web, secret)
    assert (refused.status, refused.code) == (401, "token_revoked")
    assert (await web.ask("DELETE", "/api/v1/enroll-tokens/nothing")).code == "not_found"


async def test_a_made_up_secret_is_refused(web: Web) -> None:
    refused = await Node().enroll(web, "made-up")
    assert (refused.status, refused.code) == (401, "token_unknown")


async def test_a_request_must_be_signed_by_its_key(web: Web) -> None:
    secret, _ = await token(web)
    refused = await Node().enroll(web, secret, {"signature": "00" * 64})
    assert (refused.status, refused.code) == (401, "bad_signature")
    assert (await Node().enroll(web, secret)).status == 201


async def test_a_revoked_node_does_not_come_back_by_asking_again(web: Web) -> None:
    secret, _ = await token(web)
    node = Node()
    agent = (await node.enroll(web, secret)).json["agent_id"]
    assert (await web.ask("DELETE", f"/api/v1/nodes/{agent}")).status == 204
    refused = await node.enroll(web, secret)
    assert (refused.status, refused.code) == (401, "key_in_use")
    assert "revoked" in refused.json["detail"]


@pytest.mark.parametrize(
    "changes",
    [
        {"public_key": "zz"},
        {"enrollment_id": "../../etc"},
        {"name": ""},
        {"name": "x" * 1000},
        {"secret": 5},
        {"signature": ""},
        {"role": "admin"},
    ],
)
async def test_a_malformed_request_is_refused_by_the_name_of_its_field(web: Web, changes: dict[str, Any]) -> None:
    refused = await Node().enroll(web, "secret", changes)
    assert (refused.status, refused.code) == (422, "invalid")
    assert next(iter(changes)) in refused.json["detail"]


async def test_attempts_are_limited(start: Start) -> None:
    web = await start(still=True, enroll_per_s=1.0)
    codes = [(await Node().enroll(web, "made-up")).status for _ in range(6)]
    assert codes == [401] * 5 + [429]
    last = await Node().enroll(web, "made-up")
    assert int(last.headers["Retry-After"]) >= 1


async def test_wrong_secrets_from_one_address_are_slowed_down(start: Start) -> None:
    web = await start(still=True, enroll_per_s=1000.0)
    codes = [(await Node().enroll(web, "made-up")).status for _ in range(25)]
    assert codes[:20] == [401] * 20
    assert set(codes[20:]) == {429}


async def test_no_secret_is_logged(web: Web) -> None:
    with structlog.testing.capture_logs() as logs:
        secret, made = await token(web)
        await Node().enroll(web, secret)
        await Node().enroll(web, secret)
    assert logs
    assert secret not in str(logs)
    assert made["token"] not in str(logs)
