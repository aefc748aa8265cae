"""Who did what, and who was refused; and what the hub is set to. For admins, and the settings for operators too."""

from http import HTTPStatus

import msgspec
from aiohttp import web

from hub import ports
from hub.access.records import AuditFilter
from hub.access.roles import Role
from hub.api import access_models as models
from hub.api.errors import Problem, shortened
from hub.api.route import PAGE_PARAMETERS, TABLE, Answer, Parameter, Route, answer, cut_page, read_page
from hub.config import Config, shown_settings

FILTER_CHARS_MAX = 100


async def list_audit(request: web.Request) -> web.Response:
    """Entries, newest first."""
    limit, before = read_page(request)
    wanted = AuditFilter(
        who=_text(request, "who"), action=_text(request, "action"), refused=_yes_or_no(request, "refused")
    )
    rows = await request.app[ports.STORE].access.audit(wanted, before=before, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda row: row.id)
    summaries = {f"{method} {path}": route.summary for (method, path), route in request.app[TABLE].items()}
    entries = [
        models.audit_view(row, summaries.get(row.action, ""), msgspec.json.decode(row.detail) if row.detail else None)
        for row in page
    ]
    return answer(models.Audit(entries, cursor))


def _text(request: web.Request, name: str) -> str:
    text = request.query.get(name, "")
    if len(text) > FILTER_CHARS_MAX or not text.isprintable():
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"{name} may have {FILTER_CHARS_MAX} printable characters"
        )
    return text


def _yes_or_no(request: web.Request, name: str) -> bool | None:
    text = request.query.get(name)
    if text not in {None, "0", "1"}:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"{name} must be 0 or 1, not {shortened(text or '')}")
    return None if text is None else text == "1"


async def get_settings(request: web.Request) -> web.Response:
    """What the hub is set to, and by what."""
    config: Config = request.app[ports.CONFIG]
    settings = [
        models.SettingView(
            name=one.name,
            variable=one.variable,
            value=one.value,
            default=one.default,
            source=one.source,
            help=one.help,
        )
        for one in shown_settings(config)
    ]
    return answer(models.Settings(settings))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/audit",
        handler=list_audit,
        summary="Who did what, and who was refused, newest first",
        tag="audit",
        role=Role.ADMIN,
        answers={HTTPStatus.OK: Answer("A page of entries", models.Audit)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=(
            *PAGE_PARAMETERS,
            Parameter("who", "only of this user or token, by name"),
            Parameter("action", "only with this in the action or its address, for example /nodes/"),
            Parameter(
                "refused", "1: only refusals; 0: only what was done", schema={"type": "string", "enum": ["0", "1"]}
            ),
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/settings",
        handler=get_settings,
        summary="What the hub is set to, and whether by default, the environment or the command line",
        tag="settings",
        role=Role.OPERATOR,
        answers={HTTPStatus.OK: Answer("Every setting", models.Settings)},
    ),
)
