"""Jobs: handing in, watching, calling off, and taking the proof."""

import hashlib
from collections import OrderedDict
from http import HTTPStatus

import msgspec
from aiohttp import web

from hub import ports
from hub.api import models, views
from hub.api.circuits import INSPECT_DEADLINE_S, busy, file_problem, uploaded
from hub.api.errors import Problem, not_found, shortened
from hub.api.idempotency import HEADER, read_key
from hub.api.pick import pick_stored
from hub.api.route import JSON, PAGE_PARAMETERS, Answer, Parameter, Route, answer, cut_page, read_body, read_page
from hub.ids import uuid7
from hub.store.base import IdempotencyConflict, Listed
from hub.store.records import Circuit, Job, JobPicture
from hub.verify import FileProblem, VerifierBusy
from wire.jobs import Input, JobState

ENGINE = "groth16"
PAIRS_MAX = 4096
"""Pairs of key and witness known to belong together; both are named by digest, so this never grows stale."""


class CheckedPairs:
    """Which witnesses were found to belong to which keys, the latest `PAIRS_MAX`."""

    def __init__(self) -> None:
        self._pairs: OrderedDict[tuple[str, str], None] = OrderedDict()

    def __contains__(self, pair: tuple[str, str]) -> bool:
        return pair in self._pairs

    def add(self, pair: tuple[str, str]) -> None:
        """Remember a pair."""
        self._pairs[pair] = None
        if len(self._pairs) > PAIRS_MAX:
            self._pairs.popitem(last=False)


PAIRS = web.AppKey("PAIRS", CheckedPairs)


async def submit_job(request: web.Request) -> web.Response:
    """Check that the witness belongs to the circuit, persist, then accept."""
    wanted = await read_body(request, models.JobRequest)
    key = read_key(request)
    circuit = await request.app[ports.STORE].circuit(wanted.circuit)
    if circuit is None:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "circuit_unknown",
            f"there is no circuit {shortened(wanted.circuit)}; register it by POST /api/v1/circuits first",
        )
    witness = await uploaded(request, wanted.witness, "witness")
    await _check_pair(request, circuit, wanted.witness)
    job = Job(
        id=uuid7(),
        circuit_id=circuit.id,
        engine=ENGINE,
        curve=circuit.curve,
        inputs=(
            Input(role="zkey", sha256=circuit.id, bytes_=circuit.zkey_bytes),
            Input(role="wtns", sha256=witness.sha256, bytes_=witness.bytes_),
        ),
        created_at_ms=request.app[ports.CLOCK].time_ms(),
        priority=wanted.priority,
        label=wanted.label,
        node_labels=circuit.node_labels,
        idempotency_key=key,
        request_sha256=_digest(wanted),
    )
    try:
        stored, created = await request.app[ports.JOBS].submit(job)
    except IdempotencyConflict as error:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "idempotency_conflict",
            f"this {HEADER} came with another request before",
        ) from error
    except ports.TooManyJobs as error:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE, "queue_full", "the queue is full; try again later", {"Retry-After": "30"}
        ) from error
    picture = JobPicture(job=stored) if created else await _picture(request, stored.id)
    return answer(
        await views.job_view(request.app, picture, whole=True),
        status=HTTPStatus.CREATED if created else HTTPStatus.OK,
        headers={"Location": f"/api/v1/jobs/{stored.id}"},
    )


def _digest(wanted: models.JobRequest) -> str:
    """Of what is asked for. A label that is not there is left out: requests from before labels stay the same."""
    asked = msgspec.structs.asdict(wanted)
    if not wanted.label:
        del asked["label"]
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()


async def _check_pair(request: web.Request, circuit: Circuit, witness: str) -> None:
    """Refuse a witness that is malformed or of another circuit, before anything is stored.

    Raises:
        Problem: 422 with the file's sentence, 503 when too many checks wait or the hub fails at this one.
    """
    pair = (circuit.id, witness)
    if pair in request.app[PAIRS]:
        return
    artifacts = request.app[ports.ARTIFACTS]
    try:
        info = await request.app[ports.VERIFIER].inspect_witness(artifacts.path(circuit.id), artifacts.path(witness))
    except VerifierBusy as error:
        raise busy(error) from error
    if isinstance(info, FileProblem):
        raise file_problem(info)
    request.app[PAIRS].add(pair)


async def _wanted(request: web.Request) -> str:
    """The id of the path's job, of which a beginning is enough.

    Raises:
        Problem: 404 for none, 409 for several.
    """
    return await pick_stored(request.app[ports.STORE], Listed.JOBS, "job", request.match_info["id"])


async def _picture(request: web.Request, job_id: str) -> JobPicture:
    picture = await request.app[ports.STORE].job(job_id)
    if picture is None:
        raise not_found("job", job_id)
    return picture


async def list_jobs(request: web.Request) -> web.Response:
    """Jobs, newest first."""
    limit, after = read_page(request)
    text = request.query.get("state")
    try:
        state = None if text is None else JobState(text)
    except ValueError:
        states = ", ".join(item.value for item in JobState)
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"state must be one of {states}, not {shortened(text or '')}"
        ) from None
    rows = await request.app[ports.STORE].job_pictures(before=after, limit=limit + 1, state=state)
    page, cursor = cut_page(rows, limit, lambda row: row.job.id)
    return answer(models.Jobs([await views.job_view(request.app, row) for row in page], cursor))


async def get_job(request: web.Request) -> web.Response:
    """One job with its attempts."""
    picture = await _picture(request, await _wanted(request))
    return answer(await views.job_view(request.app, picture, whole=True))


async def cancel_job(request: web.Request) -> web.Response:
    """Call a job off; one that has ended stays as it is."""
    job_id = await _wanted(request)
    job = await request.app[ports.JOBS].cancel(job_id)
    if job is None:
        raise not_found("job", job_id)
    if job.state is not JobState.CANCELLED:
        raise Problem(HTTPStatus.CONFLICT, "ended", f"the job is {job.state.value} already and cannot be cancelled")
    return answer(await views.job_view(request.app, await _picture(request, job.id), whole=True))


async def get_proof(request: web.Request) -> web.Response:
    """proof.json, verified."""
    job = (await _picture(request, await _wanted(request))).job
    return _file(job, job.proof, "proof.json")


async def get_public(request: web.Request) -> web.Response:
    """public.json, read from the submitted witness."""
    job = (await _picture(request, await _wanted(request))).job
    return _file(job, job.public, "public.json")


def _file(job: Job, data: bytes | None, name: str) -> web.Response:
    if job.state is not JobState.DONE or data is None:
        why = f": {job.error_detail}" if job.error_detail else ""
        raise Problem(HTTPStatus.CONFLICT, "not_done", f"the job is {job.state.value}, so there is no {name}{why}")
    return web.Response(body=data, content_type=JSON, headers={"Content-Disposition": f'attachment; filename="{name}"'})


NO_JOB = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)

ROUTES = (
    Route(
        method="POST",
        path="/api/v1/jobs",
        handler=submit_job,
        summary="Ask for a proof of an uploaded witness",
        tag="jobs",
        body=models.JobRequest,
        example=models.JobRequest(circuit="merkle8", witness="cd" * 32, priority=1),
        answers={
            HTTPStatus.CREATED: Answer("Accepted, and safely stored", models.JobView, headers=("Location",)),
            HTTPStatus.OK: Answer("The job this idempotency key made before", models.JobView, headers=("Location",)),
        },
        problems=(HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY),
        keyed=False,  # the job keeps its key, for as long as it is kept itself
        parameters=(Parameter(HEADER, "asking again with the same key makes no second job", where="header"),),
        deadline_s=INSPECT_DEADLINE_S,
    ),
    Route(
        method="GET",
        path="/api/v1/jobs",
        handler=list_jobs,
        summary="Jobs, newest first",
        tag="jobs",
        answers={HTTPStatus.OK: Answer("A page of jobs", models.Jobs)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=(
            *PAGE_PARAMETERS,
            Parameter(
                "state", "only jobs of this state", schema={"type": "string", "enum": [item.value for item in JobState]}
            ),
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/jobs/{id}",
        handler=get_job,
        summary="One job with its attempts",
        tag="jobs",
        answers={HTTPStatus.OK: Answer("The job", models.JobView)},
        problems=NO_JOB,
    ),
    Route(
        method="POST",
        path="/api/v1/jobs/{id}/cancel",
        handler=cancel_job,
        summary="Call a job off",
        tag="jobs",
        answers={HTTPStatus.OK: Answer("Cancelled", models.JobView)},
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
    Route(
        method="GET",
        path="/api/v1/jobs/{id}/proof",
        handler=get_proof,
        summary="proof.json, verified by the hub",
        tag="jobs",
        answers={HTTPStatus.OK: Answer("The proof, as snarkjs writes it", media=JSON)},
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
    Route(
        method="GET",
        path="/api/v1/jobs/{id}/public",
        handler=get_public,
        summary="public.json, read from the submitted witness",
        tag="jobs",
        answers={HTTPStatus.OK: Answer("The public inputs, as snarkjs writes them", media=JSON)},
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
)
