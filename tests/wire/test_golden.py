"""Frames recorded by earlier versions: today's code reads them alike and packs them to the same bytes."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.wire.examples import BY_DIRECTION
from tests.wire.strategies import plain
from tests.wire.vectors.record import Golden, all_recorded
from wire.codec import decode_agent, decode_from_worker, decode_hub, decode_to_worker, encode
from wire.limits import MINOR_VERSION, PROTOCOL

DECODERS: dict[str, Callable[[bytes], Any]] = {
    "agent": decode_agent,
    "hub": decode_hub,
    "to-worker": decode_to_worker,
    "from-worker": decode_from_worker,
}
RECORDED = all_recorded()


def includes(now: object, then: object) -> bool:
    """Whether ``now`` says all that ``then`` said; fields may have been added since."""
    if isinstance(then, dict) and isinstance(now, dict):
        return all(name in now and includes(now[name], value) for name, value in then.items())
    if isinstance(then, list) and isinstance(now, list):
        return len(then) == len(now) and all(map(includes, now, then))
    return now == then and type(now) is type(then)


@pytest.mark.parametrize("golden", RECORDED, ids=lambda golden: golden.name)
def test_recorded_frame(golden: Golden) -> None:
    direction, _ = golden.name.split("/")
    frame = DECODERS[direction](golden.data)
    assert includes(plain(frame), golden.value)
    assert encode(frame) == golden.data


def test_every_example_is_recorded() -> None:
    names = {f"{direction}/{example}" for direction, examples in BY_DIRECTION.items() for example in examples}
    assert names == {golden.name for golden in RECORDED}, "run python -m tests.wire.vectors.record"
    assert len(RECORDED) == len(names)


def test_examples_are_still_what_was_recorded() -> None:
    values = {golden.name: golden.value for golden in RECORDED}
    for direction, examples in BY_DIRECTION.items():
        for example, frame in examples.items():
            assert includes(plain(frame), values[f"{direction}/{example}"]), example


def test_the_subprotocol_is_the_major_version_of_the_recordings() -> None:
    assert re.fullmatch(r"provewire\.v1", PROTOCOL), "a new major version needs recordings of its own"
    assert MINOR_VERSION >= 0
