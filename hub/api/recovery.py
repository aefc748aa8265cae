"""Recoveries of nodes: a preview of exactly what would be run, then its confirmation."""

from http import HTTPStatus

from aiohttp import web

from hub import ports
from hub.api.enroll import new_token
from hub.api.errors import Problem, shortened
from hub.api.nodes import NO_NODE, UNDISTURBED, find_node
from hub.api.route import Answer, Route, answer, read_body
from hub.api.ssh import asked
from hub.api.ssh_key_models import (
    RecoveredView,
    RecoveryPreview,
    RecoveryRequest,
    SshConfirmRequest,
    plan_view,
    recovered_view,
    recovery_preview,
)
from hub.api.ssh_keys import BUSY, CONFLICT, INVALID, helping, other_key, refusing
from hub.ssh.book import Asked
from hub.ssh.install import Installed, Plan, Way
from hub.ssh.recovery import Action, Recovered, RecoveryPlan

INSTALL_KEY = "install-key"
ACTIONS = (*(action.value for action in Action), INSTALL_KEY)
TOKEN_S = 900
"""For a node to enrol anew with the token it was given."""
WHAT_INSTALLING_DOES = {
    Way.NOTHING: "The hub's key gets in already: there is nothing to do.",
    Way.OWN: "The file is put right by the hub's own key; then a fresh login proves it.",
    Way.SESSION: "The agent appends the key over its live session; then a fresh login proves it.",
    Way.VIA_KEY: "The file is written by the key you named; then a fresh login with the hub's own proves it.",
    Way.CONSOLE: "There is no way in: run the line at the provider's console, then ask again.",
}


async def preview(request: web.Request) -> web.Response:
    """What a recovery would do."""
    node, body = find_node(request), await read_body(request, RecoveryRequest)
    helps, who = helping(request), asked(request, body.asked_by)
    via_key, wheel = other_key(request, body.via_key), other_key(request, body.wheel)
    if body.action not in ACTIONS:
        raise Problem(INVALID, "invalid", f"action must be one of {', '.join(ACTIONS)}, not {shortened(body.action)}")
    with refusing():
        if body.action == INSTALL_KEY:
            plan = await helps.keys.plan(node.id, who, via_key=via_key, via_user=body.via_user, mend=body.mend)
            return answer(_key_preview(helps.installs.keep((plan,)), plan))
        recovery = await helps.recovery.plan(
            node.id, Action(body.action), via_key=via_key, via_user=body.via_user, wheel=wheel
        )
    return answer(recovery_preview(helps.recoveries.keep(recovery), recovery))


def _key_preview(token: str, plan: Plan) -> RecoveryPreview:
    view = plan_view(plan)
    left = [f"not mended by this: {symptom.what} ({symptom.repair})" for symptom in plan.left]
    return RecoveryPreview(
        token=token,
        node=plan.node_id,
        action=INSTALL_KEY,
        effects=[WHAT_INSTALLING_DOES[plan.way], *view.passed_over, *left],
        commands=view.commands,
        by_hand=plan.way is Way.CONSOLE,
        stdin="" if plan.write is None else "the new file, base64: as the diff shows",
        diff=view.diff,
    )


async def recover(request: web.Request) -> web.Response:
    """Do what a preview showed."""
    body = await read_body(request, SshConfirmRequest)
    helps, who = helping(request), asked(request, body.asked_by)
    with refusing():
        if body.token in helps.installs:
            (plan, *_) = helps.installs.take(body.token)
            made = await request.app[UNDISTURBED].finish(helps.keys.apply(plan, who))
            return answer(_key_installed(made))
        recovery = helps.recoveries.take(body.token)
        done = await request.app[UNDISTURBED].finish(_recover(request.app, recovery, who))
    return answer(recovered_view(done))


async def _recover(app: web.Application, plan: RecoveryPlan, who: Asked) -> Recovered:
    token = (await new_token(app, uses=1, ttl_s=TOKEN_S))[0] if plan.action is Action.RE_ENROL else ""
    return await app[ports.SSH_HELP].recovery.apply(plan, who, token=token)


def _key_installed(made: Installed) -> RecoveredView:
    return RecoveredView(
        node=made.node_id,
        action=INSTALL_KEY,
        ok=made.ok,
        sentence=made.sentence,
        attempts=list(made.attempts),
        before=[],
        after=[],
        provers_lost=[],
        output="\n".join(f"{symptom.where}: {symptom.what}; {symptom.repair}" for symptom in made.symptoms),
    )


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/nodes/{id}/recovery/preview",
        handler=preview,
        summary="What a recovery of a node would do: the exact commands",
        tag="recovery",
        answers={HTTPStatus.OK: Answer("The preview", RecoveryPreview)},
        problems=(*NO_NODE, HTTPStatus.FORBIDDEN, BUSY),
        body=RecoveryRequest,
        example=RecoveryRequest(action="restart-agent"),
        deadline_s=None,
    ),
    Route(
        method="POST",
        path="/api/v1/recovery",
        handler=recover,
        summary="Do what a preview of a recovery showed; provers are listed before and after",
        tag="recovery",
        answers={HTTPStatus.OK: Answer("What came of it", RecoveredView)},
        problems=(CONFLICT, BUSY),
        body=SshConfirmRequest,
        example=SshConfirmRequest(token="0f" * 12),
        deadline_s=None,
    ),
)
