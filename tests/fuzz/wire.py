"""A coverage-guided fuzzer over the wire: ``make fuzz``, or ``python -m tests.fuzz.wire --seconds 600``.

Every input is a target's number and then bytes for it. A target raises nothing but the errors it declares; whatever a
session has accepted can be looked at, and whatever it answers can be read. It starts from the recorded golden frames
and, with ``--corpus``, from what earlier runs found; a failing input is left in the present folder as ``crash-*``.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["wire"]):
    from wire.codec import (
        StreamReader,
        decode_agent,
        decode_event,
        decode_from_worker,
        decode_hub,
        decode_known_agent,
        decode_to_worker,
        encode,
        encode_event,
        unsigned_sha256,
    )
    from wire.errors import RemoteProtocolError
    from wire.frames import Stream
    from wire.inputs import EventsReceived, StatusReceived
    from wire.session import AgentState, HubState

from tests.wire.examples import AGENT_FRAMES, FROM_WORKER, HUB_FRAMES, TO_WORKER
from tests.wire.test_states import pair_with_agent_in, pair_with_hub_in

FRAMES_MAX = 16
"""Messages of one input for a session."""
LENGTH_BYTES = 2


def decodes(decode: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """A target: bytes are decoded, or refused as the peer's fault."""

    def target(data: bytes) -> None:
        try:
            decode(data)
        except RemoteProtocolError:
            return

    return target


def event_is_kept(data: bytes) -> None:
    """An event that was read is packed again to what reads the same."""
    try:
        event = decode_event(data)
    except RemoteProtocolError:
        return
    assert decode_event(encode_event(event)) == event


def stream_is_split(data: bytes) -> None:
    """A worker's byte stream, cut anywhere."""
    reader = StreamReader()
    try:
        for start in range(0, len(data), 7):
            for frame in reader.feed(data[start : start + 7]):
                decodes(decode_from_worker)(frame)
    except RemoteProtocolError:
        return


def messages(data: bytes) -> list[bytes]:
    """An input as messages, each behind its length."""
    found: list[bytes] = []
    while len(data) > LENGTH_BYTES and len(found) < FRAMES_MAX:
        size = int.from_bytes(data[:LENGTH_BYTES], "big")
        found.append(data[LENGTH_BYTES : LENGTH_BYTES + size])
        data = data[LENGTH_BYTES + size :]
    return found


def hub_hears(state: HubState) -> Callable[[bytes], None]:
    """A target: a hub's session in this state hears an agent."""

    def target(data: bytes) -> None:
        hub = pair_with_hub_in(state).hub
        for number, message in enumerate(messages(data)):
            for item in hub.receive(message, float(number)):
                if isinstance(item, StatusReceived):
                    assert item.status == item.picture.status  # made from what was taken over: it must be valid
                elif isinstance(item, EventsReceived):
                    hub.acknowledge(item.epoch, Stream(item.stream), item.events[-1].seq)
            for frame in hub.frames_to_send():
                decode_hub(frame)

    return target


def agent_hears(state: AgentState) -> Callable[[bytes], None]:
    """A target: an agent's session in this state hears a hub."""

    def target(data: bytes) -> None:
        agent = pair_with_agent_in(state).agent
        for number, message in enumerate(messages(data)):
            agent.receive(message, float(number))
            agent.wants_events()
            for frame in agent.frames_to_send():
                decode_agent(frame)

    return target


TARGETS: tuple[Callable[[bytes], None], ...] = (
    decodes(decode_agent),
    decodes(decode_known_agent),
    decodes(decode_hub),
    decodes(decode_to_worker),
    decodes(decode_from_worker),
    decodes(unsigned_sha256),
    event_is_kept,
    stream_is_split,
    *map(hub_hears, HubState),
    *map(agent_hears, AgentState),
)


def one_input(data: bytes) -> None:
    """What the fuzzer calls."""
    if data:
        TARGETS[data[0] % len(TARGETS)](data[1:])


def seeds() -> list[bytes]:
    """Every example frame for every target, alone and behind its length."""
    frames = [encode(frame) for group in (AGENT_FRAMES, HUB_FRAMES, TO_WORKER, FROM_WORKER) for frame in group.values()]
    alone = [bytes([number]) + frame for number in range(8) for frame in frames]
    heard = [
        bytes([number]) + len(frame).to_bytes(LENGTH_BYTES, "big") + frame
        for number in range(8, len(TARGETS))
        for frame in frames
    ]
    return alone + heard


def main() -> None:
    """Run for so many seconds; the fuzzer's own report goes to stderr, a failure ends it with another exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path, help="folder that keeps the inputs found, for later runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begin = Path(folder)
        for number, data in enumerate(seeds()):
            (begin / f"seed-{number}").write_bytes(data)
        corpus = options.corpus or begin / "found"
        corpus.mkdir(parents=True, exist_ok=True)
        limits = [f"-max_total_time={options.seconds}", "-max_len=4096", "-timeout=10", "-rss_limit_mb=1024"]
        atheris.Setup([sys.argv[0], *limits, str(corpus), str(begin)], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
