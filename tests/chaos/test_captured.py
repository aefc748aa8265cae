"""From hub to agent go, over busy sessions, acknowledgements, commands, pings and pongs: nothing is polled.

Every byte is recorded by the line in between, cut into WebSocket frames by hand and decoded by the wire's own codec.
"""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.line import DOWN, UP, FaultyLine
from tests.chaos.players import Players
from tests.e2e.rig import Rig, until
from wire import codec
from wire.frames import Ack, AssignJob, Bye, CancelJob, Challenge, ReportFull, Welcome

OPENING = {Challenge, Welcome}
ANSWERS = {Ack, AssignJob, CancelJob, ReportFull, Bye}
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10
PLAYERS = 20
EVENTS_MIN = 800
JOBS = 5


def websocket_frames(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """(opcode, payload) of every whole frame of one direction, after the HTTP head."""
    head, _, rest = stream.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 101", b"GET /agent ")), head[:200]
    while len(rest) >= 2:
        opcode, masked, size = rest[0] & 0x0F, rest[1] & 0x80, rest[1] & 0x7F
        assert rest[0] & 0x80, "a message in pieces"
        at = 2
        if size >= 126:
            width = 2 if size == 126 else 8
            size = int.from_bytes(rest[at : at + width], "big")
            at += width
        mask = rest[at : at + 4] if masked else b"\0\0\0\0"
        at += 4 if masked else 0
        if len(rest) < at + size:
            return
        payload = (
            bytes(byte ^ mask[n % 4] for n, byte in enumerate(rest[at : at + size])) if masked else rest[at : at + size]
        )
        yield opcode, payload
        rest = rest[at + size :]


def sessions(line: FaultyLine, direction: str) -> list[bytes]:
    """What passed one way on each connection to /agent."""
    assert line.passed is not None
    streams: dict[int, bytearray] = {}
    for way, number, data in list(line.passed):
        if way == direction:
            streams.setdefault(number, bytearray()).extend(data)
    ups = {number for way, number, data in line.passed if way == UP and data.startswith(b"GET /agent ")}
    return [bytes(stream) for number, stream in streams.items() if number in ups]


def test_from_hub_to_agent_go_only_answers_and_commands(rig: Rig) -> None:
    hub = rig.hub(PROVEWIRE_HEARTBEAT_S="1", PROVEWIRE_STALE_AFTER_S="3", PROVEWIRE_LOST_AFTER_S="10")
    hub.register()
    token = hub.enroll_token(rig.folder, uses=PLAYERS)
    with FaultyLine(hub.port, record=True) as line:
        agent = rig.agent().start(hub, "--hub", line.url, "--token-file", str(hub.enroll_token(rig.folder)))
        with Players(line.url, token.read_text(), PLAYERS, seed=1, name="busy") as players:
            hub.wait_node(agent.name)
            jobs = [hub.submit() for _ in range(JOBS)]
            until(lambda: players.acknowledged() > EVENTS_MIN, f"{EVENTS_MIN} events to be acknowledged")
            for job in jobs:
                assert hub.wait_job(job)["state"] == "done"
            # An operator looks at everything meanwhile: that too must ask no agent anything.
            for path in ("nodes", "jobs", "circuits"):
                hub.call("GET", path)
        downwards = sessions(line, DOWN)
    assert len(downwards) == PLAYERS + 1
    seen: Counter[str] = Counter()
    for stream in downwards:
        kinds = []
        for opcode, payload in websocket_frames(stream):
            assert opcode in {BINARY, CLOSE, PING, PONG}
            if opcode == BINARY:
                kinds.append(type(codec.decode_hub(payload)))
        assert kinds[:2] == [Challenge, Welcome]
        assert set(kinds[2:]) <= ANSWERS, set(kinds)
        seen.update(kind.__name__ for kind in kinds)
    print(dict(seen))  # noqa: T201 - shown with -s
    assert seen["AssignJob"] >= JOBS
    assert seen["Ack"] > PLAYERS
    assert seen["ReportFull"] == 0  # nothing was lost on the way, so nobody is asked for it again
