"""The history of a node over REST."""

import csv
import io
from typing import Any

import pytest

from hub import ports
from hub.rolling import Roller
from tests.hub.api.conftest import Start, Web
from tests.hub.rig import Peer
from tests.hub.store.test_contract import nothing_to_apply
from wire.frames import Event, Readings, Stream
from wire.readings import GpuReading, HostReading

MINUTE_MS = 60_000


async def with_history(web: Web, minutes: int, *, gap: range = range(0)) -> tuple[Peer, int]:
    """A node with a sample every 10 s up to now; how many there are."""
    peer = await web.hub.enroll("node-a")
    now_ms = web.clock.time_ms()
    events: list[Event] = []
    for number in range(minutes * 6):
        if number // 6 in gap:
            continue
        cards = (GpuReading("GPU-a", temperature_c=40 + number % 10, energy_mj=number * 5),)
        at_ms = now_ms - minutes * MINUTE_MS + number * 10_000
        body = Readings(HostReading(cpu_used_ratio=0.25, memory_used_bytes=1024), cards)
        events.append(Event(seq=len(events) + 1, time_ms=at_ms, monotonic_ns=0, body=body))
    await web.app[ports.STORE].ingest(peer.id, peer.epoch, Stream.READINGS, events, now_ms, nothing_to_apply)
    roller = Roller(clock=web.clock, store=web.app[ports.STORE], pause_s=0.0)
    await roller.catch_up()
    return peer, len(events)


async def metrics(web: Web, peer: Peer, query: str = "") -> Any:
    reply = await web.ask("GET", f"/api/v1/nodes/{peer.id}/metrics?{query}")
    assert reply.status == 200, reply.body
    return reply.json


async def test_series_are_listed_with_kind_and_unit(web: Web) -> None:
    peer, _ = await with_history(web, 1)
    listed = (await web.ask("GET", f"/api/v1/nodes/{peer.id}/series")).json["series"]
    by_name = {one["name"]: (one["kind"], one["unit"]) for one in listed}
    assert by_name["gpu.GPU-a.temperature_c"] == ("gauge", "celsius")
    assert by_name["gpu.GPU-a.energy_mj"] == ("counter", "mj")
    assert by_name["host.cpu_used_ratio"] == ("gauge", "ratio")
    assert list(by_name) == sorted(by_name)
    empty = await web.hub.enroll("silent")
    assert (await web.ask("GET", f"/api/v1/nodes/{empty.id}/series")).json == {"series": []}


async def test_raw_samples_with_a_gap_that_is_null(start: Start) -> None:
    web = await start(still=True)
    peer, count = await with_history(web, 30, gap=range(10, 20))
    told = await metrics(web, peer, "series=gpu.*.temperature_c")
    (series,) = told["series"]
    assert (told["tier"], series["name"], series["unit"]) == ("raw", "gpu.GPU-a.temperature_c", "celsius")
    assert len(told["times_ms"]) == len(series["avg"]) == count + 1
    assert series["avg"].count(None) == series["max"].count(None) == 1
    assert sum(series["samples"]) == count
    assert (min(v for v in series["min"] if v is not None), max(v for v in series["max"] if v is not None)) == (40, 49)


async def test_a_long_time_is_shown_in_few_points_up_to_the_last_sample(start: Start) -> None:
    web = await start(still=True)
    peer, count = await with_history(web, 240)
    now_ms = web.clock.time_ms()
    told = await metrics(web, peer, f"series=host.*,gpu.*.energy_mj&from={now_ms - 240 * MINUTE_MS}&points_max=30")
    assert told["tier"] == "minute"
    assert len(told["times_ms"]) <= 30
    by_name = {one["name"]: one for one in told["series"]}
    assert set(by_name) == {"host.cpu_used_ratio", "host.memory_used_bytes", "gpu.GPU-a.energy_mj"}
    for series in by_name.values():
        assert sum(series["samples"]) == count, "also those that are not rolled up yet"
        assert None not in series["avg"]
    counter = by_name["gpu.GPU-a.energy_mj"]
    assert counter["last"][-1] == (count - 1) * 5
    assert set(by_name["host.cpu_used_ratio"]["avg"]) == {0.25}


async def test_points_as_csv(start: Start) -> None:
    web = await start(still=True)
    peer, count = await with_history(web, 3)
    reply = await web.ask("GET", f"/api/v1/nodes/{peer.id}/metrics?series=host.cpu_used_ratio&format=csv")
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8"
    lines = list(csv.DictReader(io.StringIO(reply.body.decode())))
    assert len(lines) == count
    assert lines[0] == {
        "time_ms": str(web.clock.time_ms() - 3 * MINUTE_MS),
        "series": "host.cpu_used_ratio",
        "unit": "ratio",
        "min": "0.25",
        "avg": "0.25",
        "max": "0.25",
        "last": "0.25",
        "samples": "1",
    }


async def test_what_matches_nothing_is_empty_and_a_time_without_samples_too(web: Web) -> None:
    peer, _ = await with_history(web, 1)
    assert (await metrics(web, peer, "series=gpu.GPU-b.*"))["series"] == []
    told = await metrics(web, peer, "series=host.cpu_used_ratio&from=1000&to=2000")
    assert (told["series"][0]["avg"], told["times_ms"]) == ([], [])


@pytest.mark.parametrize(
    "query",
    [
        "points_max=1",
        "points_max=2001",
        "points_max=many",
        "from=-5",
        "from=5&to=5",
        "from=99999999999999",
        "to=1e9",
        "format=xml",
        "series=" + "x" * 300,
        "series=" + ",".join("abcdefghijklmnopq"),
    ],
)
async def test_what_cannot_be_answered_is_told_in_a_sentence(query: str, web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    reply = await web.ask("GET", f"/api/v1/nodes/{peer.id}/metrics?{query}")
    assert (reply.status, reply.code) == (422, "invalid")


async def test_too_many_series_at_once_are_refused_with_a_hint(web: Web) -> None:
    peer = await web.hub.enroll("node-a")
    cards = tuple(GpuReading(f"GPU-{n}", temperature_c=1, power_draw_mw=5) for n in range(60))
    now_ms = web.clock.time_ms()
    events = [Event(seq=1, time_ms=now_ms, monotonic_ns=0, body=Readings(gpus=cards))]
    await web.app[ports.STORE].ingest(peer.id, peer.epoch, Stream.READINGS, events, now_ms, nothing_to_apply)
    reply = await web.ask("GET", f"/api/v1/nodes/{peer.id}/metrics")
    assert (reply.status, reply.code) == (422, "invalid")
    assert "180 series match; ask for at most 128" in reply.json["detail"]
    assert len((await metrics(web, peer, "series=gpu.*.temperature_c"))["series"]) == 60


async def test_strangers_and_unknown_nodes_get_nothing(web: Web) -> None:
    for path in ("series", "metrics"):
        assert (await web.ask("GET", f"/api/v1/nodes/x/{path}", stranger=True)).status == 401
        assert (await web.ask("GET", f"/api/v1/nodes/nobody/{path}")).status == 404
