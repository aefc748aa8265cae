"""Plays journalctl: answers of systemd 252, recorded, from a script beside it that a test may change while it runs.

``journal`` holds entries as ``journalctl -o json`` printed them, one a line; ``argv`` gets each command line; ``fault``
holds what is complained of, after which it ends with 1.
"""

import json
import select
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])
OPTIONS = sys.argv[2:]


def main() -> int:
    with (FOLDER / "argv").open("a") as argv:
        argv.write(json.dumps(OPTIONS) + "\n")
    fault = FOLDER / "fault"
    if fault.exists():
        sys.stderr.write(fault.read_text())
        return 1
    after = next((each.partition("=")[2] for each in OPTIONS if each.startswith("--after-cursor=")), "")
    told = 0
    while not (FOLDER / "end").exists():
        lines = (FOLDER / "journal").read_bytes().splitlines(keepends=True)
        if after:
            places = [number for number, line in enumerate(lines) if after.encode() in line]
            told = max(told, places[0] + 1 if places else 0)
        for line in lines[told:]:
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        told = max(told, len(lines))
        select.select([], [], [], 0.01)
    return 0


if __name__ == "__main__":
    sys.exit(main())
