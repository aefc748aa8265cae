"""Channels of alerts, the notices that went or go there, and a test of each. No address leaves the hub again."""

from collections.abc import Callable
from http import HTTPStatus

import msgspec
from aiohttp import web

from hub import ports
from hub.access.roles import Role
from hub.alerts.book import Refused, Unknown
from hub.alerts.records import Channel
from hub.api import alert_models as models
from hub.api.errors import Problem, not_found
from hub.api.pick import pick
from hub.api.route import PAGE_PARAMETERS, Answer, Route, answer, cut_page, read_body, read_page
from hub.api.ssh import asked
from hub.ids import uuid7

TEST_DEADLINE_S = 60.0
"""A process is started, and a service answers or not."""
NO_CHANNEL = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


def conflict(error: Refused) -> Problem:
    """What was asked cannot be done as things are."""
    return Problem(HTTPStatus.CONFLICT, "refused", str(error))


def names_of(request: web.Request) -> Callable[[str], str]:
    """Channels' names by id."""
    names = {channel.id: channel.name for channel in request.app[ports.ALERTS].book.channels()}
    return lambda channel_id: names.get(channel_id, "")


async def list_channels(request: web.Request) -> web.Response:
    """Every channel, and how the dead-man's ping fares."""
    desk, config = request.app[ports.ALERTS], request.app[ports.CONFIG]
    deadman = models.DeadmanView(
        bool(config.deadman_url), config.deadman_every_s, desk.deadman.answered_at_ms, desk.deadman.failure
    )
    return answer(models.ChannelsView([models.channel_view(one) for one in desk.book.channels()], deadman))


async def make_channel(request: web.Request) -> web.Response:
    """A new one; its address is kept encrypted."""
    wanted = await read_body(request, models.ChannelRequest)
    now_ms = request.app[ports.CLOCK].time_ms()
    channel = Channel(
        id=uuid7(now_ms),
        name=wanted.name,
        address=b"",
        shown="",
        severity=wanted.severity,
        enabled=wanted.enabled,
        created_by=asked(request, "").by,
        created_at_ms=now_ms,
    )
    try:
        made = await request.app[ports.ALERTS].book.save_channel(channel, wanted.url)
    except Refused as error:
        raise conflict(error) from None
    return answer(models.channel_view(made), status=HTTPStatus.CREATED)


async def change_channel(request: web.Request) -> web.Response:
    """Another name, address or severity; or off for a time."""
    channel, wanted = _find(request), await read_body(request, models.ChannelChange)
    given = {
        name: value for name in ("name", "severity", "enabled") if (value := getattr(wanted, name)) is not msgspec.UNSET
    }
    url = None if isinstance(wanted.url, msgspec.UnsetType) else wanted.url
    try:
        made = await request.app[ports.ALERTS].book.save_channel(msgspec.structs.replace(channel, **given), url)
    except Refused as error:
        raise conflict(error) from None
    return answer(models.channel_view(made))


async def delete_channel(request: web.Request) -> web.Response:
    """With all that waits for it."""
    channel = _find(request)
    try:
        await request.app[ports.ALERTS].book.delete_channel(channel.id)
    except Unknown:
        raise not_found("channel", channel.id) from None
    return web.Response(status=HTTPStatus.NO_CONTENT)


async def test_channel(request: web.Request) -> web.Response:
    """Send a notice now; the answer says what became of it."""
    channel = _find(request)
    try:
        notice = await request.app[ports.ALERTS].test_channel(channel.id, asked(request, "").by)
    except Unknown:
        raise not_found("channel", channel.id) from None
    return answer(models.notice_view(notice, channel.name))


async def list_notices(request: web.Request) -> web.Response:
    """Whatever was told, and what waits."""
    limit, before = read_page(request)
    rows = await request.app[ports.STORE].alerts.notices(before=before, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda row: row.id)
    names = names_of(request)
    return answer(models.NoticesPage([models.notice_view(row, names(row.channel_id)) for row in page], cursor))


def _find(request: web.Request) -> Channel:
    """The channel of the path, by id, unique beginning of an id, or name.

    Raises:
        Problem: 404 for none, 409 for several.
    """
    book = request.app[ports.ALERTS].book
    return book.channel(pick("channel", request.match_info["id"], ((one.id, one.name) for one in book.channels())))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/alerts/channels",
        handler=list_channels,
        summary="Where notices go, without the addresses",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("The channels", models.ChannelsView)},
    ),
    Route(
        method="POST",
        path="/api/v1/alerts/channels",
        handler=make_channel,
        summary="Have notices sent somewhere",
        tag="alerts",
        role=Role.ADMIN,
        body=models.ChannelRequest,
        example=models.ChannelRequest(name="on call", url="ntfys://ntfy.sh/a-topic-nobody-guesses"),
        answers={HTTPStatus.CREATED: Answer("The channel", models.ChannelView)},
        problems=(HTTPStatus.CONFLICT,),
    ),
    Route(
        method="PATCH",
        path="/api/v1/alerts/channels/{id}",
        handler=change_channel,
        summary="Change a channel's name, address or severity; or switch it off",
        tag="alerts",
        role=Role.ADMIN,
        body=models.ChannelChange,
        example=models.ChannelChange(enabled=False),
        answers={HTTPStatus.OK: Answer("The channel", models.ChannelView)},
        problems=NO_CHANNEL,
    ),
    Route(
        method="DELETE",
        path="/api/v1/alerts/channels/{id}",
        handler=delete_channel,
        summary="Send no more notices there; those that wait are dropped",
        tag="alerts",
        role=Role.ADMIN,
        answers={HTTPStatus.NO_CONTENT: Answer("Removed")},
        problems=NO_CHANNEL,
    ),
    Route(
        method="POST",
        path="/api/v1/alerts/channels/{id}/test",
        handler=test_channel,
        summary="Send a test notice now and say what became of it",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("The notice: sent, or failed with the reason", models.NoticeView)},
        problems=NO_CHANNEL,
        deadline_s=TEST_DEADLINE_S,
    ),
    Route(
        method="GET",
        path="/api/v1/alerts/notices",
        handler=list_notices,
        summary="Notices, newest first: sent, waiting, and given up",
        tag="alerts",
        answers={HTTPStatus.OK: Answer("A page of notices", models.NoticesPage)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=PAGE_PARAMETERS,
    ),
)
