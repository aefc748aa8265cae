"""The benches' own sums: a figure that is wrong here is wrong in every report."""

import asyncio
import json
import os
import random
import socket

import msgspec
import pytest

from bench.agent import pss_bytes
from bench.harness import Target, Verdict, cpu_s, peak_rss_bytes, rss_bytes, thread_cpu_s
from bench.latency import percentile
from bench.players import BINARY, masked
from bench.reconnect import peak_per_s
from bench.recording import Mix, record
from bench.relay import Relay
from bench.soak import blocks, slope_of
from bench.traffic import Scene, number_of, sensed_ms
from bench.viewer import Watch
from wire.codec import decode_agent
from wire.frames import Events, Status, Stream
from wire.status import OutboxReading

MIB = 1024**2


def test_a_missed_requirement_fails_and_a_missed_aim_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    def code(*targets: Target) -> int:
        return Verdict("some", {"n": 1}, list(targets)).finish()

    assert code(Target("ratio", 0.3, required=0.3, aim=0.5, at_least=True)) == 0
    assert code(Target("ratio", 0.29, required=0.3, aim=0.5, at_least=True)) == 1
    assert code(Target("kib", 40.0, required=40.0, aim=25.0)) == 0
    assert code(Target("kib", 41.0, required=40.0)) == 1
    assert code(Target("only shown", 41.0)) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["bench"] == "some"
    assert last["targets"]["only shown"] == {
        "value": 41.0,
        "required": None,
        "aim": None,
        "sense": "<=",
        "met": None,
    }


def test_what_the_kernel_says_of_this_process() -> None:
    pid = os.getpid()
    before_s = cpu_s(pid)
    while cpu_s(pid) == before_s:
        sum(range(100_000))
    assert 10 * MIB < pss_bytes(pid) <= rss_bytes(pid) <= peak_rss_bytes(pid) < 4096 * MIB
    assert 0 < thread_cpu_s(pid)["main"] <= cpu_s(pid) + 0.1


def test_the_recording_is_what_a_session_sends() -> None:
    recording = record(2, Mix(readings_s=10))
    assert recording.counts() == {"full": 2, "delta": 118, "logs": 12, "events": 4, "readings": 12}
    sizes = recording.mean_bytes()
    assert 250 < sizes["delta"] < 330
    assert 1300 < sizes["full"] < 1700
    other = recording.of_epoch("01900000-0000-4000-8000-0000000000aa")
    statuses, numbers = [], dict.fromkeys(Stream, 0)
    for each in other.frames:
        frame = decode_agent(each.data)
        if isinstance(frame, Status):
            statuses.append(frame.status_seq)
            assert frame.full == (each.kind == "full")
        else:
            assert isinstance(frame, Events)
            assert frame.epoch == other.epoch
            assert [event.seq for event in frame.events] == [numbers[frame.stream] + 1]
            numbers[frame.stream] = each.last_seq
            assert number_of(frame.events[0].body) == each.last_seq
    assert statuses == list(range(1, 121))


@pytest.mark.parametrize("size", [0, 1, 125, 126, 300, 65_535, 65_536])
def test_a_masked_message_is_read_as_it_was(size: int) -> None:
    payload = random.Random(size).randbytes(size)
    message = masked(payload)
    assert message[0] == 0x80 | BINARY
    assert message[1] & 0x80
    length = message[1] & 0x7F
    begin = 2
    if length == 126:
        length, begin = int.from_bytes(message[2:4], "big"), 4
    elif length == 127:
        length, begin = int.from_bytes(message[2:10], "big"), 10
    assert length == size
    mask = message[begin : begin + 4]
    assert bytes(byte ^ mask[at % 4] for at, byte in enumerate(message[begin + 4 :])) == payload


def test_the_slope_is_the_trend_and_odd_moments_do_not_move_it() -> None:
    rng = random.Random(1)
    rising = [(at / 360, 100.0 + 3.0 * at / 360 + rng.gauss(0.0, 0.1)) for at in range(360)]
    for at in range(0, 360, 20):
        rising[at] = (rising[at][0], 400.0)
    slope, low, high = slope_of(rising)
    assert low < 3.0 < high
    assert slope == pytest.approx(3.0, abs=0.2)
    flat = [(at / 360, 100.0 + rng.gauss(0.0, 0.1)) for at in range(360)]
    slope, low, high = slope_of(flat)
    assert -0.2 < low < slope < high < 0.2


def test_blocks_are_medians_by_the_hour() -> None:
    samples = [(float(second), (100 + (second == 3) * 900) * MIB) for second in range(20)]
    assert blocks(samples) == [(0.0, 100.0), (10.0 / 3600, 100.0)]


def test_percentiles_and_peaks() -> None:
    assert [percentile(range(1, 101), share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 51, 100, 100]
    with pytest.raises(RuntimeError, match="nothing was seen"):
        percentile([], 0.5)
    assert peak_per_s([(0.0, 0), (0.5, 10), (1.0, 40), (1.5, 110), (2.0, 120)]) == 100.0


def test_a_viewer_knows_how_old_what_it_sees_is() -> None:
    scene = Scene(random.Random(1), name="node", gpus=2)
    watch = Watch()

    def node(now_ns: int) -> dict[str, object]:
        scene.look(now_ns)
        picture = scene.picture(OutboxReading(0, 0))
        assert isinstance(picture.workers, list)
        assert isinstance(picture.gpus, list)
        energy_mj = picture.gpus[0].energy_mj
        assert energy_mj is not None
        assert sensed_ms(energy_mj) == now_ns // 1_000_000
        worker = {"detail": picture.workers[0].detail}
        return {"id": "a", "status": {"workers": [worker], "gpus": [{"energy_mj": energy_mj}]}}

    whole = {"seq": 1, "nodes": [node(1_000_000)]}
    watch.take(b"snapshot", msgspec.json.encode(whole))
    watch.take(b"node", msgspec.json.encode({"seq": 2, "node": node(2_000_000)}))
    assert (len(watch.seen.state_ms), len(watch.seen.reading_ms)) == (0, 1)
    scene.change_state(3_000_000)
    watch.take(b"node", msgspec.json.encode({"seq": 3, "node": node(4_000_000)}))
    watch.take(b"beat", b'{"seq": 5}')
    seen = watch.seen
    assert (len(seen.state_ms), len(seen.reading_ms), len(seen.shown_ms)) == (1, 2, 2)
    assert seen.state_ms[0] == pytest.approx(seen.reading_ms[1] + 1.0)
    assert seen.shown_ms[1] == pytest.approx(seen.reading_ms[1] + 2.0)
    assert (seen.snapshots, seen.holes) == (1, 1)


async def test_the_relay_counts_both_ways_and_lets_go() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(2 * await reader.readexactly(1000))
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, Relay(server.sockets[0].getsockname()[1]) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(bytes(1000))
        assert await reader.readexactly(2000) == bytes(2000)
        assert (relay.up_bytes, relay.down_bytes) == (1000, 2000)
        other, other_writer = await asyncio.open_connection("127.0.0.1", relay.port)
        other_writer.write(bytes(1))
        while relay.up_bytes < 1001:  # noqa: ASYNC110 - the relay works between two turns of the loop
            await asyncio.sleep(0)
    for left, mine in ((reader, writer), (other, other_writer)):
        assert await left.read() == b""
        mine.close()
        await mine.wait_closed()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", relay.port)):
        pass
