"""Ways in by SSH: targets, host keys, attempts; what operators change and what they try. All of it kept with the node.

A probe by name may be asked for by everybody who is logged in; a command of one's own needs the admin token itself.
"""

import asyncio
from collections import Counter
from http import HTTPStatus

from aiohttp import hdrs, web
from msgspec import UNSET

from hub import ports
from hub.access.roles import Kind
from hub.api import auth
from hub.api.errors import Problem, not_found, shortened
from hub.api.nodes import NO_NODE, UNDISTURBED, find_node
from hub.api.pick import pick_stored
from hub.api.route import PAGE_PARAMETERS, Answer, Route, answer, cut_page, read_body, read_page
from hub.api.ssh_models import (
    IMPORT_CHARS_MAX,
    SshAcceptRequest,
    SshAttempts,
    SshAttemptView,
    SshHostKeysRequest,
    SshImported,
    SshImportRequest,
    SshRunRequest,
    SshTargetRequest,
    SshTargets,
    SshView,
    attempt_view,
    ssh_view,
    step_view,
)
from hub.ids import uuid7
from hub.ssh import importing, scripts
from hub.ssh.book import Asked
from hub.ssh.desk import Busy, NoWayIn
from hub.ssh.importing import ImportRefused, Outcome, Step
from hub.ssh.pins import KeyRefused, host_key
from hub.ssh.reach import Source
from hub.ssh.record import Record
from hub.ssh.targets import TargetRefused, parse
from hub.store.base import Listed
from hub.store.records import HubEvent
from hub.whichnode import which

PROBES = {"login": ":", "look": scripts.LOOK}
"""What can be tried by name: the login alone, and everything the ladder asks of a node."""
ATTEMPTS_PAGE_MAX = 50
IMPORT_BODY_BYTES_MAX = IMPORT_CHARS_MAX + 64 * 1024
COMMAND_SHOWN_CHARS = 1000
INVALID = HTTPStatus.UNPROCESSABLE_ENTITY


def asked(request: web.Request, claimed: str) -> Asked:
    """Who asks: by whose credential, and who they say they are."""
    identity = request[auth.IDENTITY]
    if identity.kind is Kind.ADMIN_TOKEN:
        name = claimed if claimed.isprintable() else ""
        return Asked(f"{name} ({identity.name})" if name else identity.name, request.remote or "")
    kind = "API token" if identity.kind is Kind.TOKEN else "browser session"
    return Asked(f"{identity.name} ({kind})", request.remote or "")


async def list_targets(request: web.Request) -> web.Response:
    """Every node's way in, by id."""
    limit, after = read_page(request)
    nodes = [node for node in request.app[ports.REGISTRY].nodes() if node.id > after][: limit + 1]
    page, cursor = cut_page(nodes, limit, lambda node: node.id)
    return answer(SshTargets([ssh_view(request.app, node) for node in page], cursor))


async def get_target(request: web.Request) -> web.Response:
    """A node's way in."""
    return answer(ssh_view(request.app, find_node(request)))


async def put_target(request: web.Request) -> web.Response:
    """Set a node's target, by the operator's word."""
    node, body = find_node(request), await read_body(request, SshTargetRequest)
    book, who = request.app[ports.SSH].book, asked(request, body.asked_by)
    try:
        target = parse(body.target)
        keys = None if body.host_keys is UNSET else [host_key(key) for key in body.host_keys]
    except (TargetRefused, KeyRefused) as error:
        raise Problem(INVALID, "invalid", str(error)) from None

    async def change() -> None:
        await book.set_target(node.id, target, who)
        if keys is not None:
            await book.pin(node.id, keys, who)

    await request.app[UNDISTURBED].finish(change())
    return answer(ssh_view(request.app, node))


async def delete_target(request: web.Request) -> web.Response:
    """Forget a node's target and pinned host keys."""
    node = find_node(request)
    await request.app[UNDISTURBED].finish(request.app[ports.SSH].book.forget(node.id, asked(request, "")))
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def accept(request: web.Request) -> web.Response:
    """Take over what the node suggests."""
    node, body = find_node(request), await read_body(request, SshAcceptRequest)
    who = asked(request, body.asked_by)
    if request.app[ports.SSH].readiness(node.id).suggested is None:
        raise Problem(HTTPStatus.CONFLICT, "nothing_suggested", "the node suggests no way in; set its target")
    change = request.app[ports.SSH].book.accept(node.id, who, target=body.target, host_keys=body.host_keys)
    await request.app[UNDISTURBED].finish(change)
    return answer(ssh_view(request.app, node))


async def put_host_keys(request: web.Request) -> web.Response:
    """Pin host keys of a node, or of a host on the way to it."""
    node, body = find_node(request), await read_body(request, SshHostKeysRequest)
    book, who = request.app[ports.SSH].book, asked(request, body.asked_by)
    try:
        keys = [host_key(key) for key in body.host_keys]
        jump = parse(body.jump) if body.jump else None
    except (TargetRefused, KeyRefused) as error:
        raise Problem(INVALID, "invalid", str(error)) from None
    change = book.pin(node.id, keys, who) if jump is None else book.pin_jump(node.id, jump, keys, who)
    await request.app[UNDISTURBED].finish(change)
    return answer(ssh_view(request.app, node))


# --- attempts


async def list_attempts(request: web.Request) -> web.Response:
    """A node's attempts, newest first."""
    node = find_node(request)
    limit, before = read_page(request)
    limit = min(limit, ATTEMPTS_PAGE_MAX)
    rows = await request.app[ports.STORE].ssh_attempts(node.id, before=before, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda record: record.id)
    views = await asyncio.to_thread(lambda: [attempt_view(record, node.name) for record in page])
    return answer(SshAttempts(views, cursor))


async def get_attempt(request: web.Request) -> web.Response:
    """One attempt, whole."""
    node, wanted = find_node(request), request.match_info["attempt"]
    store = request.app[ports.STORE]
    record = await store.ssh_attempt(await pick_stored(store, Listed.SSH_ATTEMPTS, "attempt", wanted))
    if record is None or record.node_id != node.id:
        raise not_found("attempt", wanted)
    return answer(await asyncio.to_thread(attempt_view, record, node.name, whole=True))


async def try_now(request: web.Request) -> web.Response:
    """Try the way in, now: a fresh login for a probe, an open connection if there is one for a command."""
    node, body = find_node(request), await read_body(request, SshRunRequest)
    who = asked(request, body.asked_by)
    if not body.command and body.probe not in PROBES:
        raise Problem(INVALID, "invalid", f"probe must be {' or '.join(PROBES)}, not {shortened(body.probe)}")
    if body.command:
        if request[auth.IDENTITY].kind is not Kind.ADMIN_TOKEN:
            raise Problem(HTTPStatus.FORBIDDEN, "admin_only", "a command of your own needs the admin token itself")
        if "\0" in body.command:
            raise Problem(INVALID, "invalid", "a command holds no zero character")
    record = await request.app[UNDISTURBED].finish(_run(request.app, node.id, body, who))
    view = await asyncio.to_thread(attempt_view, record, node.name, whole=True)
    return answer(view, status=HTTPStatus.CREATED)


async def _run(app: web.Application, node_id: str, body: SshRunRequest, who: Asked) -> Record:
    if body.command:
        now_ms = app[ports.CLOCK].time_ms()
        said = body.command if len(body.command) <= COMMAND_SHOWN_CHARS else f"{body.command[:COMMAND_SHOWN_CHARS]}..."
        event = HubEvent(
            id=uuid7(now_ms),
            agent_id=node_id,
            time_ms=now_ms,
            kind="ssh.command",
            level="info",
            detail=f"{who}: {said}",
        )
        await app[ports.STORE].add_hub_event(event)
    try:
        return await app[ports.SSH].run(
            node_id,
            "command" if body.command else body.probe,
            body.command or PROBES[body.probe],
            deadline_s=None if body.deadline_s is UNSET else body.deadline_s,
            asked_by=who.by,
            asked_from=who.from_,
            fresh=not body.command,
        )
    except NoWayIn as error:
        raise Problem(HTTPStatus.CONFLICT, "no_way_in", str(error)) from None
    except Busy as error:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", str(error), {hdrs.RETRY_AFTER: "10"}) from None


# --- import


async def import_targets(request: web.Request) -> web.Response:
    """Read targets of many nodes; with ``dry_run`` only tell what would change."""
    body = await read_body(request, SshImportRequest, IMPORT_BODY_BYTES_MAX)
    desk, nodes = request.app[ports.SSH], request.app[ports.REGISTRY].nodes()
    known = [(node.id, node.name) for node in nodes]

    def planned() -> list[Step]:
        return importing.plan(importing.read(body.text, body.form), lambda wanted: which(known, wanted), desk.readiness)

    try:
        steps = await asyncio.to_thread(planned)
    except ImportRefused as error:
        raise Problem(INVALID, "invalid", str(error)) from None
    if not body.dry_run:
        await request.app[UNDISTURBED].finish(_take(request.app, steps, asked(request, body.asked_by)))
    counts = Counter(step.outcome.value for step in steps)
    told = {outcome.value: counts[outcome.value] for outcome in Outcome}
    return answer(SshImported(body.dry_run, told, [step_view(step) for step in steps]))


async def _take(app: web.Application, steps: list[Step], who: Asked) -> None:
    book = app[ports.SSH].book
    for step in steps:
        if step.outcome in {Outcome.NEW, Outcome.CHANGED}:
            await book.set_target(step.node_id, step.target, who, Source.IMPORT)
            if step.host_keys:
                await book.pin(step.node_id, step.host_keys, who, Source.IMPORT)


TARGET = "/api/v1/nodes/{id}/ssh"
EXAMPLE_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPr7Bf3CQCX+6KZN9TErzQyEsSLqVx3ZUa/oCChHbN0V"

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/ssh/targets",
        handler=list_targets,
        summary="Every node's way in by SSH",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("A page of ways in", SshTargets)},
        problems=(INVALID,),
        parameters=PAGE_PARAMETERS,
    ),
    Route(
        method="POST",
        path="/api/v1/ssh/import",
        handler=import_targets,
        summary="Import targets: lines with ssh commands, ssh_config, CSV or JSON; a dry run unless told otherwise",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("What changes, entry by entry", SshImported)},
        body=SshImportRequest,
        example=SshImportRequest(text="C.1001 ssh -p 22022 root@203.0.113.5\n"),
        body_bytes_max=IMPORT_BODY_BYTES_MAX,
        deadline_s=120.0,
    ),
    Route(
        method="GET",
        path=TARGET,
        handler=get_target,
        summary="A node's way in by SSH: target, pinned host keys, what the node suggests, whether it was proved",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("The way in", SshView)},
        problems=NO_NODE,
    ),
    Route(
        method="PUT",
        path=TARGET,
        handler=put_target,
        summary="Set a node's target",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("The way in, not proved yet", SshView)},
        problems=NO_NODE,
        body=SshTargetRequest,
        example=SshTargetRequest(target="ssh -p 22022 root@203.0.113.5", host_keys=[EXAMPLE_KEY]),
    ),
    Route(
        method="DELETE",
        path=TARGET,
        handler=delete_target,
        summary="Forget a node's target and pinned host keys",
        tag="ssh",
        answers={HTTPStatus.NO_CONTENT: Answer("There is no way in any more")},
        problems=NO_NODE,
    ),
    Route(
        method="POST",
        path=f"{TARGET}/accept",
        handler=accept,
        summary="Take over what the node suggests: its address, and if asked for its host keys",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("The way in", SshView)},
        problems=NO_NODE,
        body=SshAcceptRequest,
        example=SshAcceptRequest(),
    ),
    Route(
        method="PUT",
        path=f"{TARGET}/host-keys",
        handler=put_host_keys,
        summary="Pin host keys of a node, or of a host to jump over, in place of those before",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("The way in", SshView)},
        problems=NO_NODE,
        body=SshHostKeysRequest,
        example=SshHostKeysRequest(host_keys=[EXAMPLE_KEY]),
    ),
    Route(
        method="GET",
        path=f"{TARGET}/attempts",
        handler=list_attempts,
        summary=f"Attempts to reach a node by SSH, newest first, at most {ATTEMPTS_PAGE_MAX} a page",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("A page of attempts", SshAttempts)},
        problems=(*NO_NODE, INVALID),
        parameters=PAGE_PARAMETERS,
    ),
    Route(
        method="POST",
        path=f"{TARGET}/attempts",
        handler=try_now,
        summary="Reach a node by SSH now: a probe by name, or a command with the admin token itself",
        tag="ssh",
        answers={
            HTTPStatus.CREATED: Answer("The attempt; of two tries the second, which names the first", SshAttemptView)
        },
        problems=(*NO_NODE, HTTPStatus.SERVICE_UNAVAILABLE),
        body=SshRunRequest,
        example=SshRunRequest(probe="login"),
        deadline_s=None,
    ),
    Route(
        method="GET",
        path=f"{TARGET}/attempts/{{attempt}}",
        handler=get_attempt,
        summary="One attempt, with everything that was said",
        tag="ssh",
        answers={HTTPStatus.OK: Answer("The attempt", SshAttemptView)},
        problems=NO_NODE,
    ),
)
