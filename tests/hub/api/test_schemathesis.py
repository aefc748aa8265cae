"""The OpenAPI document is true: whatever it allows, and what it does not, is answered as it says, and never by 5xx.

A real hub in a process of its own, with a node, a circuit, a job, a user and a token, is asked by schemathesis.
"""

import hashlib
import json
from base64 import urlsafe_b64decode
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest
import requests
import schemathesis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.result import Ok

from hub.api import ROUTES
from hub.api.enroll import REQUEST_CONTEXT
from hub.api.openapi import document
from hub.api.route import Route
from prover import circuits
from tests.hub.test_app import process

load_all_checks()
CIRCUITS = Path(circuits.__file__).parent
SCHEMA = schemathesis.openapi.from_dict(document(ROUTES))
OPERATIONS = {
    f"{operation.method.upper()} {operation.path}": operation
    for operation in (result.ok() for result in SCHEMA.get_all_operations() if isinstance(result, Ok))
}
CONFORMS: list[Any] = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
]
ENDLESS = {"/api/v1/live"}
"""Streams; tests of their own read them."""
NOT_BUILT = "page_not_built"
FEW, MANY = 4, 150


class World:
    """The hub, and ids of what is in it."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.session = requests.Session()
        self.headers = {"Authorization": f"Bearer {token}", "Origin": url, "X-Provewire": "1"}
        self.ids: dict[str, dict[str, str]] = {}

    def ask(self, method: str, path: str, **more: Any) -> Any:
        answer = self.session.request(method, f"{self.url}{path}", headers=self.headers, timeout=60, **more)
        assert answer.ok, (path, answer.status_code, answer.text)
        return answer.json()

    def fill(self) -> None:
        """Something of everything."""
        digests = []
        for name in ("merkle8.zkey", "merkle8.wtns"):
            data = (CIRCUITS / name).read_bytes()
            digests.append(hashlib.sha256(data).hexdigest())
            self.ask("PUT", f"/api/v1/artifacts/{digests[-1]}", data=data)
        circuit = self.ask("POST", "/api/v1/circuits", json={"name": "merkle8", "zkey": digests[0]})
        job = self.ask("POST", "/api/v1/jobs", json={"circuit": "merkle8", "witness": digests[1]})
        user = {"name": "ada", "role": "viewer", "password": "correct horse battery"}
        self.ask("POST", "/api/v1/users", json=user)
        self.ask("POST", "/api/v1/tokens", json={"name": "ci", "role": "viewer"})
        node = self.enrolled()
        self.ids = {
            "/api/v1/nodes/{id}": {"id": node, "attempt": "0" * 12},
            "/api/v1/circuits/{id}": {"id": circuit["id"]},
            "/api/v1/jobs/{id}": {"id": job["id"]},
            "/api/v1/users/{id}": {"id": "ada"},
            "/api/v1/artifacts/{sha256}": {"sha256": digests[1]},
        }

    def enrolled(self) -> str:
        """A node, by the very request an agent makes."""
        token = self.ask("POST", "/api/v1/enroll-tokens", json={"uses": 1})["token"]
        padded = token.removeprefix("pw1.") + "=" * (-len(token.removeprefix("pw1.")) % 4)
        key, enrollment = Ed25519PrivateKey.generate(), str(uuid4())
        public = key.public_key().public_bytes_raw()
        body = {
            "secret": json.loads(urlsafe_b64decode(padded))["s"],
            "enrollment_id": enrollment,
            "public_key": public.hex(),
            "name": "node-a",
            "signature": key.sign(REQUEST_CONTEXT + enrollment.encode() + public).hex(),
        }
        return str(self.ask("POST", "/api/v1/enroll", json=body)["agent_id"])

    def known(self, route: Route) -> dict[str, str] | None:
        """Path parameters of something there is; none for what would do away with it."""
        if route.method == "DELETE" or route.path.endswith("/cancel"):
            return None
        found = next((ids for beginning, ids in self.ids.items() if route.path.startswith(beginning)), None)
        return None if found is None else {name: found[name] for name in found if f"{{{name}}}" in route.path}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    data_dir = tmp_path_factory.mktemp("hub")
    with process(data_dir, environ={"PROVEWIRE_ENROLL_PER_S": "1000", "PROVEWIRE_SSH_PROGRAM": "false"}) as (
        child,
        facts,
    ):
        # A log that nobody reads stops the hub when the pipe is full.
        Thread(target=deque, args=(child.stderr, 0), daemon=True).start()
        made = World(facts["local_url"], (data_dir / "admin-token").read_text().strip())
        made.fill()
        yield made


def conform(world: World, route: Route, examples: int) -> None:
    """Ask what the document allows, and what it does not, of things there are and of things there are not."""
    operation = OPERATIONS[f"{route.method} {route.path}"]
    known = world.known(route)
    wanted = [operation.as_strategy()]
    if route.body is not None or route.parameters:
        wanted += [operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)]
    if known is not None:
        wanted += [operation.as_strategy(path_parameters=known)]
    for strategy in wanted:

        @settings(
            max_examples=examples, database=None, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck]
        )
        @given(case=strategy)
        def asked(case: Case[Any]) -> None:
            if isinstance(case.query, dict):
                case.query.pop("follow", None)  # a stream without end
            answer = case.call(base_url=world.url, session=world.session, headers=world.headers, timeout=60)
            if answer.status_code == 503 and NOT_BUILT in answer.text:
                return
            case.validate_response(answer, checks=CONFORMS)

        asked()


ASKED = [route for route in ROUTES if route.path not in ENDLESS]


@pytest.mark.parametrize("route", ASKED, ids=lambda route: f"{route.method} {route.path}")
def test_an_address_answers_as_the_document_says(world: World, route: Route) -> None:
    conform(world, route, FEW)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("route", ASKED, ids=lambda route: f"{route.method} {route.path}")
def test_an_address_answers_as_the_document_says_whatever_it_is_asked(world: World, route: Route) -> None:
    conform(world, route, MANY)


def test_the_hub_is_still_there(world: World) -> None:
    assert world.ask("GET", "/healthz")["ok"]
