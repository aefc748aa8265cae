"""Record golden frames of the present minor version: ``python -m tests.wire.vectors.record``.

Frames that are already recorded stay as they are: their bytes are a promise to every version out there. Only names that
are not yet in any file are added, to the file of the present minor version. ``--again NAME`` records one anew, which is
right only before that minor version was released.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.wire.examples import BY_DIRECTION
from tests.wire.strategies import plain
from wire.codec import encode
from wire.limits import MINOR_VERSION

FOLDER = Path(__file__).parent
_HEX_PER_LINE = 100


class Golden(NamedTuple):
    """One recorded frame."""

    name: str
    """direction/example"""
    value: object
    """the frame under its Python names, as `plain` gives it"""
    data: bytes


def recorded(path: Path) -> Iterator[Golden]:
    """The frames of one file: blocks of a name, a line of JSON, and lines of hex."""
    text = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    for block in text.strip().split("\n\n"):
        name, value, *data = block.splitlines()
        yield Golden(name, json.loads(value), bytes.fromhex("".join(data)))


def all_recorded() -> list[Golden]:
    """The frames of every file, oldest version first."""
    return [golden for path in sorted(FOLDER.glob("v1.*.txt")) for golden in recorded(path)]


def block(name: str, value: object, data: bytes) -> str:
    """One frame as it stands in a file."""
    text = data.hex()
    lines = [text[start : start + _HEX_PER_LINE] for start in range(0, len(text), _HEX_PER_LINE)]
    return "\n".join([name, json.dumps(value), *lines])


def main(again: list[str]) -> None:
    """Add what is missing."""
    path = FOLDER / f"v1.{MINOR_VERSION}.txt"
    here = {golden.name: golden for golden in recorded(path)} if path.exists() else {}
    elsewhere = {golden.name for golden in all_recorded()} - here.keys()
    for direction, examples in BY_DIRECTION.items():
        for example, frame in examples.items():
            name = f"{direction}/{example}"
            if name in elsewhere or (name in here and name not in again):
                continue
            here[name] = Golden(name, plain(frame), encode(frame))
    head = f"# Frames as minor version {MINOR_VERSION} packs them: direction/name, value, bytes. Written by record.py."
    blocks = [block(*golden) for golden in here.values()]
    path.write_text("\n\n".join([head, *blocks]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if name != "--again"])
