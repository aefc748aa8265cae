"""Requests, sessions and jobs can be followed through the log."""

import asyncio

import pytest
import structlog
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from tests.hub.api.conftest import Web


@pytest.mark.parametrize("given", ["", "short", "x" * 65, "with space here", "tail\N{SNOWMAN}snow", "line%0Abreak-x"])
async def test_every_answer_has_an_id_of_our_own_unless_a_good_one_is_given(web: Web, given: str) -> None:
    reply = await web.ask("GET", "/healthz", headers={"X-Request-Id": given} if given else {})
    answered = reply.headers["X-Request-Id"]
    assert len(answered) == 36
    assert answered != given


async def test_a_good_id_is_answered_also_with_a_refusal(web: Web) -> None:
    for path, status in (("/api/v1/nodes", 200), ("/api/v1/nodes/none", 404), ("/nowhere", 404)):
        reply = await web.ask("GET", path, headers={"X-Request-Id": "client-0815.x"})
        assert (reply.status, reply.headers["X-Request-Id"]) == (status, "client-0815.x")
    stranger = await web.ask("GET", "/api/v1/nodes", stranger=True, headers={"X-Request-Id": "client-0816.x"})
    assert (stranger.status, stranger.headers["X-Request-Id"]) == (401, "client-0816.x")


async def test_a_request_leads_to_its_job_and_no_other(web: Web) -> None:
    await web.register()
    with capture_logs(processors=[merge_contextvars]) as said:
        first = await web.submit(headers={"X-Request-Id": "client-first"})
        second = await web.submit()
    jobs = {line["job"]: line["request"] for line in said if line["event"] == "a job was handed in"}
    assert jobs[first["id"]] == "client-first"
    assert jobs[second["id"]] != "client-first"


async def test_a_session_stands_in_its_own_lines_and_in_no_others(web: Web) -> None:
    peers = [await web.hub.enroll() for _ in range(2)]
    with capture_logs(processors=[merge_contextvars]) as said:
        for peer in peers:
            async with peer.connect():
                await asyncio.sleep(0)
        await web.ask("GET", "/api/v1/nodes/none")
    opened = {line["agent"]: line["session"] for line in said if line["event"] == "a session opened"}
    ended = {line["agent"]: line["session"] for line in said if line["event"] == "a session ended"}
    assert opened.keys() == {peer.id for peer in peers}
    assert {agent: opened[agent] for agent in ended} == ended
    assert "session" not in structlog.contextvars.get_contextvars()
