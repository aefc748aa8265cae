"""Alerts: what fires, what was, who looks after it; silences and rules."""

from http import HTTPStatus

import msgspec
from aiohttp import web

from hub import ports
from hub.alerts.book import Refused, Unknown
from hub.alerts.facts import Rule
from hub.alerts.records import Alert, AlertState, Silence
from hub.alerts.rules import Change
from hub.api import alert_channels
from hub.api import alert_models as models
from hub.api.alert_channels import conflict, names_of
from hub.api.errors import Problem, not_found, shortened
from hub.api.pick import pick
from hub.api.route import PAGE_PARAMETERS, Answer, Parameter, Route, answer, cut_page, read_body, read_page
from hub.api.ssh import asked
from hub.ids import uuid7

NOTICES_OF_AN_ALERT = 100
NO_ALERT = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


async def list_firing(request: web.Request) -> web.Response:
    """What fires now."""
    desk = request.app[ports.ALERTS]
    failing = sum(channel.failed_at_ms is not None for channel in desk.book.channels())
    return answer(models.FiringView([models.alert_view(one) for one in desk.firing()], desk.book.pending(), failing))


async def list_history(request: web.Request) -> web.Response:
    """Alerts of all times."""
    limit, before = read_page(request)
    text = request.query.get("state")
    if text is not None and text not in set(AlertState):
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"state is firing, resolved or merged, not {shortened(text)}"
        )
    state = None if text is None else AlertState(text)
    rows = await request.app[ports.STORE].alerts.alerts(state=state, before=before, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda row: row.id)
    return answer(models.AlertsPage([models.alert_view(row) for row in page], cursor))


async def get_alert(request: web.Request) -> web.Response:
    """One, with what was told of it."""
    alert = await _find(request)
    store, names = request.app[ports.STORE].alerts, names_of(request)
    notices = await store.notices(alert_id=alert.id, limit=NOTICES_OF_AN_ALERT)
    return answer(
        models.AlertWhole(models.alert_view(alert), [models.notice_view(one, names(one.channel_id)) for one in notices])
    )


async def acknowledge(request: web.Request) -> web.Response:
    """Somebody looks after it."""
    alert, wanted = await _find(request), await read_body(request, models.AckRequest)
    for_s = None if isinstance(wanted.for_s, msgspec.UnsetType) else float(wanted.for_s)
    try:
        after = await request.app[ports.ALERTS].book.acknowledge(alert.id, asked(request, "").by, wanted.note, for_s)
    except Unknown as error:
        raise Problem(HTTPStatus.CONFLICT, "over", str(error)) from None
    return answer(models.alert_view(after))


async def unacknowledge(request: web.Request) -> web.Response:
    """Nobody looks after it any more."""
    alert = await _find(request)
    try:
        after = await request.app[ports.ALERTS].book.unacknowledge(alert.id)
    except Unknown as error:
        raise Problem(HTTPStatus.CONFLICT, "over", str(error)) from None
    return answer(models.alert_view(after))


async def _find(request: web.Request) -> Alert:
    """The alert of the path: by id, or by the unique beginning of the id of one that fires.

    Raises:
        Problem: 404 for none, 409 for several.
    """
    wanted = request.match_info["id"]
    firing = {alert.id: alert for alert in request.app[ports.ALERTS].firing()}
    if (found := firing.get(wanted) or await request.app[ports.STORE].alerts.alert(wanted)) is not None:
        return found
    return firing[pick("alert", wanted, ((alert.id, "") for alert in firing.values()))]


# --- silences


async def list_silences(request: web.Request) -> web.Response:
    """Those of all times."""
    limit, before = read_page(request)
    rows = await request.app[ports.STORE].alerts.silences(before=before, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda row: row.id)
    return answer(models.SilencesPage([_silence_view(request, row) for row in page], cursor))


async def make_silence(request: web.Request) -> web.Response:
    """No notices for a time."""
    wanted = await read_body(request, models.SilenceRequest)
    silence = Silence(
        id=uuid7(request.app[ports.CLOCK].time_ms()),
        rule="" if isinstance(wanted.rule, msgspec.UnsetType) else wanted.rule.value,
        node_id=_node(request, wanted.node) if wanted.node else "",
        cause=wanted.cause,
        reason=wanted.reason,
        created_by=asked(request, "").by,
        created_at_ms=0,
        until_ms=0,
    )
    try:
        made = await request.app[ports.ALERTS].book.silence(silence, wanted.for_s)
    except Refused as error:
        raise conflict(error) from None
    return answer(_silence_view(request, made), status=HTTPStatus.CREATED)


async def end_silence(request: web.Request) -> web.Response:
    """Now instead of later."""
    book = request.app[ports.ALERTS].book
    silence_id = pick("silence", request.match_info["id"], ((one.id, "") for one in book.silences()))
    try:
        return answer(_silence_view(request, await book.end_silence(silence_id)))
    except Unknown:
        raise not_found("silence", silence_id) from None


def _node(request: web.Request, wanted: str) -> str:
    return pick("node", wanted, ((node.id, node.name) for node in request.app[ports.REGISTRY].nodes()))


def _silence_view(request: web.Request, silence: Silence) -> models.SilenceView:
    node = request.app[ports.REGISTRY].node(silence.node_id)
    now_ms = request.app[ports.ALERTS].book.now_ms()
    return models.silence_view(silence, "" if node is None else node.name, now_ms)


# --- rules


async def list_rules(request: web.Request) -> web.Response:
    """Every rule, as it holds now."""
    limits = request.app[ports.ALERTS].book.limits()
    return answer(models.RulesView([models.rule_view(rule, limits[rule]) for rule in Rule]))


async def change_rule(request: web.Request) -> web.Response:
    """Other thresholds and times."""
    rule, wanted = _rule(request), await read_body(request, models.RuleChange)
    change = Change(**{name: getattr(wanted, name) for name in Change.__struct_fields__})
    try:
        after = await request.app[ports.ALERTS].book.change_rule(rule, change)
    except Refused as error:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", str(error)) from None
    return answer(models.rule_view(rule, after))


async def reset_rule(request: web.Request) -> web.Response:
    """As it comes."""
    rule = _rule(request)
    return answer(models.rule_view(rule, await request.app[ports.ALERTS].book.change_rule(rule, None)))


def _rule(request: web.Request) -> Rule:
    wanted = request.match_info["rule"]
    if wanted not in set(Rule):
        raise not_found("rule", wanted)
    return Rule(wanted)


NO_SILENCE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/alerts",
        handler=list_firing,
        summary="Alerts that fire now, the worst first",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("What fires", models.FiringView)},
    ),
    Route(
        method="GET",
        path="/api/v1/alerts/history",
        handler=list_history,
        summary="Alerts of all times, newest first",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("A page of alerts", models.AlertsPage)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=(
            *PAGE_PARAMETERS,
            Parameter("state", "only those", schema={"type": "string", "enum": [state.value for state in AlertState]}),
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/alerts/rules",
        handler=list_rules,
        summary="Every rule of alerts with its thresholds",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("The rules", models.RulesView)},
    ),
    Route(
        method="PATCH",
        path="/api/v1/alerts/rules/{rule}",
        handler=change_rule,
        summary="Change a rule's thresholds, times or severity, or switch it off",
        tag="alerts",
        body=models.RuleChange,
        example=models.RuleChange(bad=80.0, clear=75.0),
        answers={HTTPStatus.OK: Answer("The rule", models.RuleView)},
        problems=(HTTPStatus.NOT_FOUND,),
    ),
    Route(
        method="DELETE",
        path="/api/v1/alerts/rules/{rule}",
        handler=reset_rule,
        summary="Give a rule back the thresholds and times it came with",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("The rule", models.RuleView)},
        problems=(HTTPStatus.NOT_FOUND,),
    ),
    Route(
        method="GET",
        path="/api/v1/alerts/silences",
        handler=list_silences,
        summary="Silences of all times, newest first",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("A page of silences", models.SilencesPage)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=PAGE_PARAMETERS,
    ),
    Route(
        method="POST",
        path="/api/v1/alerts/silences",
        handler=make_silence,
        summary="No notices for a time: of a rule, a node, a cause, or all. What is bad when it ends is told then",
        tag="alerts",
        body=models.SilenceRequest,
        example=models.SilenceRequest(for_s=7200, reason="the data centre works on its network", rule=Rule.NODE_LOST),
        answers={HTTPStatus.CREATED: Answer("The silence", models.SilenceView)},
        problems=NO_SILENCE,
    ),
    Route(
        method="DELETE",
        path="/api/v1/alerts/silences/{id}",
        handler=end_silence,
        summary="End a silence now",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("The silence, over", models.SilenceView)},
        problems=NO_SILENCE,
    ),
    *alert_channels.ROUTES,
    Route(
        method="GET",
        path="/api/v1/alerts/{id}",
        handler=get_alert,
        summary="One alert, with the notices about it",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("The alert", models.AlertWhole)},
        problems=NO_ALERT,
    ),
    Route(
        method="POST",
        path="/api/v1/alerts/{id}/ack",
        handler=acknowledge,
        summary="Say that you look after an alert, until it ends or for a time",
        tag="alerts",
        body=models.AckRequest,
        example=models.AckRequest(note="on my way", for_s=3600),
        answers={HTTPStatus.OK: Answer("The alert", models.AlertView)},
        problems=NO_ALERT,
    ),
    Route(
        method="DELETE",
        path="/api/v1/alerts/{id}/ack",
        handler=unacknowledge,
        summary="Take the acknowledgement back",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("The alert", models.AlertView)},
        problems=NO_ALERT,
    ),
)
