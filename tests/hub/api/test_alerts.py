"""Alerts over REST, with real notices to a real receiver on loopback, which the setting allows."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web as aiohttp_web
from aiohttp.test_utils import TestServer

from hub import ports
from hub.alerts.engine import GROUP_WAIT_S
from hub.alerts.facts import Rule
from hub.alerts.rules import RULES
from hub.store.sql import SqlStore
from tests.hub.api.conftest import Start, Web
from tests.hub.rig import FakeClock

SECRET = "s3cr3t-path-of-the-hook"  # noqa: S105 - of this test
AGE = RULES[Rule.QUEUE_AGE].limits


@dataclass
class Receiver:
    """What a webhook got."""

    port: int
    got: list[dict[str, Any]] = field(default_factory=list)
    elsewhere: int = 0
    status: int = 200

    def url(self, path: str = SECRET) -> str:
        return f"json://127.0.0.1:{self.port}/{path}"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    app = aiohttp_web.Application()

    async def hook(request: aiohttp_web.Request) -> aiohttp_web.Response:
        taker.got.append(await request.json())
        return aiohttp_web.Response(status=taker.status)

    async def away(_request: aiohttp_web.Request) -> aiohttp_web.Response:
        raise aiohttp_web.HTTPTemporaryRedirect("/elsewhere")

    async def elsewhere(_request: aiohttp_web.Request) -> aiohttp_web.Response:
        taker.elsewhere += 1
        return aiohttp_web.Response()

    app.router.add_post(f"/{SECRET}", hook)
    app.router.add_post("/away", away)
    app.router.add_route("*", "/elsewhere", elsewhere)
    server = TestServer(app)
    await server.start_server()
    assert server.port is not None
    taker = Receiver(server.port)
    yield taker
    await server.close()


async def channel(web: Web, url: str, **more: Any) -> dict[str, Any]:
    reply = await web.ask("POST", "/api/v1/alerts/channels", json={"name": "on call", "url": url, **more})
    assert reply.status == 201, reply.body
    made: dict[str, Any] = reply.json
    return made


async def goes_on(web: Web, seconds: float) -> None:
    """Time passes, the hub looks, and what is due is delivered."""
    assert isinstance(web.clock, FakeClock)
    web.clock.move(seconds)
    web.app[ports.ALERTS]._late_s = [0.0]  # time that a test moves is no lateness of the loop
    await web.app[ports.ALERTS].look()
    await web.app[ports.ALERTS].outbox.deliver()


async def firing(web: Web) -> list[dict[str, Any]]:
    reply = await web.ask("GET", "/api/v1/alerts")
    assert reply.status == 200
    found: list[dict[str, Any]] = reply.json["alerts"]
    return found


async def old_queue(start: Start, **settings: Any) -> tuple[Web, dict[str, Any]]:
    """A hub with a job that nobody takes for long enough."""
    web = await start(still=True, **settings)
    await web.register()
    job = await web.submit()
    assert AGE.bad is not None
    await goes_on(web, AGE.bad + 1)
    await goes_on(web, AGE.hold_s)
    return web, job


async def test_an_alert_is_delivered_once_and_its_end_once(start: Start, receiver: Receiver) -> None:
    web = await start(still=True, alert_private_hosts="127.0.0.1")
    await channel(web, receiver.url())
    await web.register()
    job = await web.submit()
    assert AGE.bad is not None
    await goes_on(web, AGE.bad + 1)
    assert await firing(web) == []
    await goes_on(web, AGE.hold_s)
    (alert,) = await firing(web)
    assert (alert["rule"], alert["state"], alert["notified_at_ms"]) == ("queue_age", "firing", None)
    for _ in range(3):
        await goes_on(web, GROUP_WAIT_S)
    assert [(one["title"], one["type"]) for one in receiver.got] == [("[WARNING] Jobs wait too long", "warning")]
    assert "the oldest queued job waits for 16 min" in receiver.got[0]["message"]
    await web.ask("POST", f"/api/v1/jobs/{job['id']}/cancel")
    for _ in range(4):
        await goes_on(web, AGE.resolve_s)
    assert [one["title"] for one in receiver.got[1:]] == ["[RESOLVED] Jobs wait too long"]
    whole = (await web.ask("GET", f"/api/v1/alerts/{alert['id']}")).json
    assert whole["alert"]["state"] == "resolved"
    assert [(one["kind"], one["state"], one["tries"]) for one in whole["notices"]] == [
        ("resolve", "sent", 1),
        ("fire", "sent", 1),
    ]
    assert await firing(web) == []
    history = (await web.ask("GET", "/api/v1/alerts/history?state=resolved")).json
    assert [one["id"] for one in history["alerts"]] == [alert["id"]]


async def test_a_hub_that_comes_back_tells_nothing_twice(start: Start, receiver: Receiver) -> None:
    web, _ = await old_queue(start, alert_private_hosts="127.0.0.1")
    await channel(web, receiver.url())
    await goes_on(web, GROUP_WAIT_S)
    assert len(receiver.got) == 1
    (alert,) = await firing(web)
    again = web.app[ports.ALERTS]
    await again.start()  # as a hub does that was killed: everything from the store
    for _ in range(5):
        await goes_on(web, 60)
    assert len(receiver.got) == 1
    assert [one["id"] for one in await firing(web)] == [alert["id"]]


async def test_what_cannot_be_delivered_is_tried_again_and_shown(start: Start, receiver: Receiver) -> None:
    receiver.status = 500
    web, _ = await old_queue(start, alert_private_hosts="127.0.0.1")
    made = await channel(web, receiver.url())
    await goes_on(web, GROUP_WAIT_S)
    assert len(receiver.got) == 1
    (shown,) = (await web.ask("GET", "/api/v1/alerts/channels")).json["channels"]
    assert shown["failed_at_ms"] is not None
    assert "500" in shown["failure"]
    (notice,) = (await web.ask("GET", "/api/v1/alerts/notices")).json["notices"]
    assert (notice["state"], notice["tries"], notice["channel"]) == ("waiting", 1, made["id"])
    receiver.status = 200
    await goes_on(web, 31)
    assert len(receiver.got) == 2
    (notice,) = (await web.ask("GET", "/api/v1/alerts/notices")).json["notices"]
    assert (notice["state"], notice["tries"], notice["error"]) == ("sent", 2, "")
    (shown,) = (await web.ask("GET", "/api/v1/alerts/channels")).json["channels"]
    assert (shown["failed_at_ms"], shown["failure"]) == (None, "")


async def test_nothing_goes_to_this_machine_unless_the_setting_says_so(web: Web, receiver: Receiver) -> None:
    made = await channel(web, receiver.url())
    tried = await web.ask("POST", f"/api/v1/alerts/channels/{made['id']}/test")
    assert (tried.status, tried.json["state"]) == (200, "failed")
    assert "127.0.0.1 is this machine itself" in tried.json["error"]
    assert "PROVEWIRE_ALERT_PRIVATE_HOSTS" in tried.json["error"]
    await web.ask(
        "PATCH", "/api/v1/alerts/channels/on call", json={"url": f"json://localhost:{receiver.port}/{SECRET}"}
    )
    tried = await web.ask("POST", f"/api/v1/alerts/channels/{made['id']}/test")
    assert tried.json["state"] == "failed"
    assert receiver.got == []


async def test_a_redirect_is_not_followed_whatever_the_address_says(start: Start, receiver: Receiver) -> None:
    web = await start(alert_private_hosts="localhost")
    made = await channel(web, f"json://localhost:{receiver.port}/away?redirect=yes")
    tried = (await web.ask("POST", f"/api/v1/alerts/channels/{made['id']}/test")).json
    assert (tried["state"], receiver.elsewhere) == ("failed", 0)
    assert "redirect" in tried["error"]


async def test_a_secret_in_an_address_is_nowhere_to_be_seen(
    start: Start, receiver: Receiver, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    receiver.status = 404
    web = await start(alert_private_hosts="127.0.0.1")
    url = receiver.url().replace("json://", "json://user:passw0rd-in-it@") + "?token=query-s3cr3t"
    made = await channel(web, url)
    await web.ask("POST", f"/api/v1/alerts/channels/{made['id']}/test")
    said = [str(made)]
    paths = [f"/api/v1/alerts/{name}" for name in ("channels", "notices", "history", "rules", "silences")]
    paths += ["/api/v1/audit", "/api/v1/alerts", "/metrics"]
    said += [(await web.ask("GET", path)).body.decode() for path in paths]
    said += [caplog.text, *capfd.readouterr()]
    files = [file.read_bytes() for file in web.app[ports.CONFIG].data_dir.rglob("*") if file.is_file()]
    for secret in (SECRET, "passw0rd-in-it", "query-s3cr3t"):
        assert not any(secret in text for text in said), secret
        assert not any(secret.encode() in data for data in files), secret
    assert made["shown"] == f"json://127.0.0.1:{receiver.port}/..."
    assert "404" in said[2]


@pytest.mark.parametrize("url", ["nonsense", "http:/x", "syslog:/", "json://", "\0"])
async def test_what_is_no_address_makes_no_channel(web: Web, url: str) -> None:
    reply = await web.ask("POST", "/api/v1/alerts/channels", json={"name": "x", "url": url})
    assert reply.code == "refused"
    assert (await web.ask("GET", "/api/v1/alerts/channels")).json["channels"] == []


async def test_channels_have_one_name_each_and_can_be_removed(web: Web) -> None:
    made = await channel(web, "json://example.org/x", severity="critical")
    again = await web.ask("POST", "/api/v1/alerts/channels", json={"name": "on call", "url": "json://example.org/y"})
    assert again.code == "refused"
    changed = await web.ask("PATCH", f"/api/v1/alerts/channels/{made['id'][:12]}", json={"enabled": False})
    assert (changed.json["enabled"], changed.json["severity"]) == (False, "critical")
    assert (await web.ask("DELETE", f"/api/v1/alerts/channels/{made['id']}")).status == 204
    assert (await web.ask("DELETE", f"/api/v1/alerts/channels/{made['id']}")).code == "not_found"


async def test_somebody_looks_after_it(start: Start) -> None:
    web, _ = await old_queue(start)
    (alert,) = await firing(web)
    acked = await web.ask("POST", f"/api/v1/alerts/{alert['id']}/ack", json={"note": "mine", "for_s": 60})
    assert (acked.status, acked.json["acked_by"], acked.json["ack_note"]) == (200, "admin token", "mine")
    await goes_on(web, 30)
    assert (await firing(web))[0]["acked_by"] == "admin token"
    await goes_on(web, 31)
    assert (await firing(web))[0]["acked_by"] == ""
    await web.ask("POST", f"/api/v1/alerts/{alert['id'][:13]}/ack")
    assert (await web.ask("DELETE", f"/api/v1/alerts/{alert['id']}/ack")).json["acked_by"] == ""
    assert (await web.ask("POST", "/api/v1/alerts/01900000-0000-7000-8000-00000000dead/ack")).code == "not_found"


async def test_a_silence_keeps_a_notice_back_until_it_is_ended(start: Start, receiver: Receiver) -> None:
    web = await start(still=True, alert_private_hosts="127.0.0.0/8")
    await channel(web, receiver.url())
    wanted = {"for_s": 86_400, "reason": "moving house", "rule": "queue_age"}
    silence = await web.ask("POST", "/api/v1/alerts/silences", json=wanted)
    assert (silence.status, silence.json["created_by"]) == (201, "admin token")
    await web.register()
    await web.submit()
    for _ in range(4):
        await goes_on(web, 900)
    assert [one["notified_at_ms"] for one in await firing(web)] == [None]
    assert receiver.got == []
    assert (await web.ask("DELETE", f"/api/v1/alerts/silences/{silence.json['id']}")).status == 200
    await goes_on(web, 5)
    assert len(receiver.got) == 1
    assert (await web.ask("DELETE", f"/api/v1/alerts/silences/{silence.json['id']}")).code == "not_found"
    unknown = await web.ask("POST", "/api/v1/alerts/silences", json=wanted | {"node": "nobody"})
    assert unknown.code == "not_found"


async def test_rules_are_changed_within_reason_and_set_back(web: Web) -> None:
    rules = {rule["rule"]: rule for rule in (await web.ask("GET", "/api/v1/alerts/rules")).json["rules"]}
    assert rules.keys() == {rule.value for rule in Rule}
    path = "/api/v1/alerts/rules/gpu_temperature"
    changed = await web.ask("PATCH", path, json={"bad": 80, "clear": 70, "severity": "critical"})
    assert (changed.json["bad"], changed.json["severity"], changed.json["changed"]) == (80, "critical", True)
    await web.app[ports.ALERTS].start()
    assert web.app[ports.ALERTS].book.limits()[Rule.GPU_TEMPERATURE].bad == 80
    for body in ({"bad": 60}, {"hold_s": -1}, {"hold_s": 1e9}, {"clear": "x"}, {"nonsense": 1}):
        assert (await web.ask("PATCH", path, json=body)).code == "invalid"
    assert (await web.ask("PATCH", "/api/v1/alerts/rules/node_lost", json={"bad": 5})).code == "invalid"
    assert (await web.ask("DELETE", path)).json["changed"] is False
    assert (await web.ask("DELETE", "/api/v1/alerts/rules/nonsense")).code == "not_found"


async def test_a_store_that_cannot_be_written_is_told_without_it_and_its_end_kept(
    start: Start, receiver: Receiver
) -> None:
    web = await start(still=True, alert_private_hosts="127.0.0.1")
    await channel(web, receiver.url())
    desk, store = web.app[ports.ALERTS], web.app[ports.STORE]
    assert isinstance(store, SqlStore)
    await store.writer.submit(lambda c: c.exec_driver_sql("PRAGMA query_only = ON"))
    assert isinstance(web.clock, FakeClock)
    for seconds in (1, RULES[Rule.HUB_STORE].limits.hold_s + 1, 300):
        web.clock.move(seconds)
        await desk.look()
    assert [one["title"] for one in receiver.got] == ["[CRITICAL] The hub's store is in trouble"]
    assert [alert["rule"] for alert in await firing(web)] == ["hub_store"]
    assert desk.word() is None, "nobody is told that all is well"
    plain = store._connection.connection.driver_connection  # what is submitted to the writer fails as well
    assert plain is not None
    plain.execute("PRAGMA query_only = OFF")
    await goes_on(web, 5)
    await goes_on(web, 5)
    assert [one["title"] for one in receiver.got[1:]] == ["[RESOLVED] The hub's store is in trouble"]
    assert await firing(web) == []
    history = (await web.ask("GET", "/api/v1/alerts/history")).json["alerts"]
    assert [(one["rule"], one["state"]) for one in history] == [("hub_store", "resolved")]
