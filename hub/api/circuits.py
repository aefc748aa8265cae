"""Circuits: registering an uploaded proving key, and its verification key."""

from http import HTTPStatus

from aiohttp import web

from hub import ports
from hub.access.roles import Role
from hub.api import models, views
from hub.api.errors import Problem, not_found
from hub.api.pick import pick_stored
from hub.api.route import JSON, PAGE_PARAMETERS, Answer, Route, answer, cut_page, read_body, read_page, unless_known
from hub.store.base import KeyTaken, Listed, NameTaken
from hub.store.records import Artifact, Circuit
from hub.verify import INTERNAL, FileProblem, VerifierBusy

INSPECT_DEADLINE_S = 300.0
"""A place in the queue of the checks, and the check itself, whose own deadline is the setting verify_s."""


async def uploaded(request: web.Request, sha256: str, what: str) -> Artifact:
    """An artifact a request speaks of.

    Raises:
        Problem: 422 when it is not here.
    """
    artifact = await request.app[ports.STORE].artifact(sha256)
    if artifact is None or request.app[ports.ARTIFACTS].size_bytes(sha256) is None:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "artifact_missing",
            f"the {what} {sha256} is not here; upload it by PUT /api/v1/artifacts/{sha256} first",
        )
    return artifact


def file_problem(problem: FileProblem) -> Problem:
    """A file's fault as the answer to the request that named it; what the hub itself failed at may go well later."""
    if problem.code == INTERNAL:
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "check_failed", problem.detail, {"Retry-After": "30"})
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, problem.code, problem.detail)


def busy(error: VerifierBusy) -> Problem:
    """Too many files wait to be checked."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", str(error), {"Retry-After": "30"})


async def register_circuit(request: web.Request) -> web.Response:
    """Inspect the key in a limited child, and keep what it is. The same name and key again is harmless."""
    wanted = await read_body(request, models.CircuitRequest)
    artifact = await uploaded(request, wanted.zkey, "proving key")
    store = request.app[ports.STORE]
    known = await store.circuit(wanted.name)
    if known is not None and known.id == wanted.zkey:
        return answer(views.circuit_view(known))
    try:
        info = await request.app[ports.VERIFIER].inspect_circuit(request.app[ports.ARTIFACTS].path(wanted.zkey))
    except VerifierBusy as error:
        raise busy(error) from error
    if isinstance(info, FileProblem):
        raise file_problem(info)
    try:
        circuit, created = await store.add_circuit(
            Circuit(
                id=wanted.zkey,
                name=wanted.name,
                zkey_bytes=artifact.bytes_,
                curve=info.curve,
                n_public=info.n_public,
                n_vars=info.n_vars,
                domain_size=info.domain_size,
                verification_key=info.vkey_json.encode(),
                created_at_ms=request.app[ports.CLOCK].time_ms(),
                contributions=info.contributions,
            )
        )
    except NameTaken as error:
        raise Problem(
            HTTPStatus.CONFLICT, "name_taken", f"the name {wanted.name} belongs to another proving key; choose another"
        ) from error
    except KeyTaken as error:
        raise Problem(HTTPStatus.CONFLICT, "key_taken", f"{error}; use that name, or its id") from error
    status = HTTPStatus.CREATED if created else HTTPStatus.OK
    return answer(views.circuit_view(circuit), status=status, headers={"Location": f"/api/v1/circuits/{circuit.id}"})


async def find_circuit(request: web.Request) -> Circuit:
    """The circuit named in the path, by id or name.

    Raises:
        Problem: 404.
    """
    wanted = request.match_info["id"]
    store = request.app[ports.STORE]
    circuit = await store.circuit(wanted)
    if circuit is None:
        circuit = await store.circuit(await pick_stored(store, Listed.CIRCUITS, "circuit", wanted))
    if circuit is None:
        raise not_found("circuit", wanted)
    return circuit


async def list_circuits(request: web.Request) -> web.Response:
    """All circuits, by id."""
    limit, after = read_page(request)
    rows = await request.app[ports.STORE].circuits(after=after, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda row: row.id)
    return unless_known(request, answer(models.Circuits([views.circuit_view(row) for row in page], cursor)))


async def get_circuit(request: web.Request) -> web.Response:
    """One circuit."""
    return answer(views.circuit_view(await find_circuit(request)))


async def change_circuit(request: web.Request) -> web.Response:
    """Say which nodes may get a circuit. Jobs that were handed in before keep what was said then."""
    circuit, wanted = await find_circuit(request), await read_body(request, models.CircuitChange)
    changed = await request.app[ports.STORE].set_circuit_labels(circuit.id, wanted.node_labels)
    return answer(views.circuit_view(changed or circuit))


async def get_verification_key(request: web.Request) -> web.Response:
    """The verification key, byte for byte as snarkjs exports it."""
    circuit = await find_circuit(request)
    return web.Response(body=circuit.verification_key, content_type=JSON)


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/circuits",
        handler=register_circuit,
        summary="Register an uploaded proving key under a name",
        tag="circuits",
        body=models.CircuitRequest,
        example=models.CircuitRequest(name="merkle8", zkey="ab" * 32),
        answers={
            HTTPStatus.CREATED: Answer("Registered", models.CircuitView, headers=("Location",)),
            HTTPStatus.OK: Answer("It was registered before", models.CircuitView),
        },
        problems=(HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY),
        deadline_s=INSPECT_DEADLINE_S,
    ),
    Route(
        method="GET",
        path="/api/v1/circuits",
        handler=list_circuits,
        summary="All circuits",
        tag="circuits",
        answers={
            HTTPStatus.OK: Answer("A page of circuits", models.Circuits, headers=("ETag",)),
            HTTPStatus.NOT_MODIFIED: Answer("The client has it"),
        },
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=PAGE_PARAMETERS,
    ),
    Route(
        method="GET",
        path="/api/v1/circuits/{id}",
        handler=get_circuit,
        summary="One circuit, by id or name",
        tag="circuits",
        answers={HTTPStatus.OK: Answer("The circuit", models.CircuitView)},
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
    Route(
        method="PATCH",
        path="/api/v1/circuits/{id}",
        handler=change_circuit,
        summary="Say which nodes may get a circuit: whoever owns a node can read the witnesses it proves",
        tag="circuits",
        body=models.CircuitChange,
        example=models.CircuitChange(node_labels={"owner": "us"}),
        role=Role.ADMIN,
        answers={HTTPStatus.OK: Answer("The circuit", models.CircuitView)},
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY),
    ),
    Route(
        method="GET",
        path="/api/v1/circuits/{id}/verification-key",
        handler=get_verification_key,
        summary="verification_key.json, as snarkjs exports it",
        tag="circuits",
        answers={HTTPStatus.OK: Answer("The verification key", media=JSON)},
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
)
