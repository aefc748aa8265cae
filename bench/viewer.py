"""A browser of the live view: the same Server-Sent Events that the page reads, with the time of each arrival.

``python -m bench.viewer --url U --token-file F --seconds N --out FILE`` writes what it saw as JSON. What a node's
picture carries (see `bench.traffic`) says when a state changed and when its readings were taken; the machine's
monotonic clock is one for all processes.
"""

import argparse
import http.client
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from bench.traffic import sensed_ms

SILENT_S = 30.0
"""The stream beats every few seconds; after this it is broken."""


class Card(Struct, frozen=True):
    """What matters of a card here."""

    energy_mj: int | None = None


class Worker(Struct, frozen=True):
    """What matters of a worker."""

    detail: str = ""


class Picture(Struct, frozen=True):
    """What matters of a status."""

    gpus: list[Card] = []
    workers: list[Worker] = []


class Node(Struct, frozen=True):
    """What matters of a node."""

    id: str
    status: Picture | None = None


class NodeSaid(Struct, frozen=True):
    """The body of a ``node`` event."""

    seq: int
    node: Node | None = None


class Snapshot(Struct, frozen=True):
    """The body of a ``snapshot`` event."""

    seq: int
    nodes: list[Node]


class Numbered(Struct, frozen=True):
    """The body of any other event."""

    seq: int


class Seen(Struct):
    """Everything a viewer noted."""

    state_ms: list[float] = []
    """From each change of state to its arrival here."""
    reading_ms: list[float] = []
    """Age of each new reading when it arrived."""
    shown_ms: list[float] = []
    """Age of the reading that was shown until a newer one came: the oldest a person ever saw."""
    events: int = 0
    bytes: int = 0
    snapshots: int = 0
    """The first is the beginning, each further one means that this viewer was too slow."""
    holes: int = 0
    """Numbers that were left out: something was lost."""


class Watch:
    """Takes the stream apart."""

    def __init__(self) -> None:
        self.seen = Seen()
        self._seq = 0
        self._changed_ns: dict[str, int] = {}
        self._sensed_ms: dict[str, float] = {}
        self._node = msgspec.json.Decoder(NodeSaid)
        self._snapshot = msgspec.json.Decoder(Snapshot)
        self._numbered = msgspec.json.Decoder(Numbered)

    def take(self, event: bytes, data: bytes) -> None:
        """One event."""
        now_ns = time.monotonic_ns()
        self.seen.events += 1
        self.seen.bytes += len(data)
        if event == b"node":
            said = self._node.decode(data)
            self._count(said.seq)
            if said.node is not None:
                self._note(said.node, now_ns, new=True)
        elif event == b"snapshot":
            whole = self._snapshot.decode(data)
            self._count(whole.seq)
            self.seen.snapshots += 1
            for node in whole.nodes:
                self._note(node, now_ns, new=self.seen.snapshots > 1)
        else:
            self._count(self._numbered.decode(data).seq)

    def _count(self, seq: int) -> None:
        self.seen.holes += seq != self._seq + 1
        self._seq = seq

    def _note(self, node: Node, now_ns: int, *, new: bool) -> None:
        """What a node's picture says of its own age. The first picture is none that we waited for."""
        if node.status is None or not node.status.workers or not node.status.gpus:
            return
        changed_ns = int(node.status.workers[0].detail or 0)
        before_ns = self._changed_ns.get(node.id)
        self._changed_ns[node.id] = changed_ns
        if new and before_ns is not None and changed_ns != before_ns:
            self.seen.state_ms.append((now_ns - changed_ns) / 1e6)
        energy_mj = node.status.gpus[0].energy_mj
        if energy_mj is None:
            return
        now_ms, at_ms = now_ns / 1e6, sensed_ms(energy_mj)
        previous_ms = self._sensed_ms.get(node.id)
        self._sensed_ms[node.id] = at_ms
        if new and previous_ms is not None and at_ms != previous_ms:
            self.seen.reading_ms.append(now_ms - at_ms)
            self.seen.shown_ms.append(now_ms - previous_ms)


def watch(url: str, token: str, seconds: float) -> Seen:
    """Read the live stream for so long after its first picture."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=SILENT_S)
    watching = Watch()
    try:
        connection.request("GET", "/api/v1/live", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise RuntimeError(f"the live stream answered HTTP {answer.status}")
        event, end_s = b"", float("inf")
        while (line := answer.readline()) and time.monotonic() < end_s:
            if line.startswith(b"event:"):
                event = line[6:].strip()
            elif line.startswith(b"data:"):
                watching.take(event, line[5:])
                if watching.seen.snapshots and end_s == float("inf"):
                    end_s = time.monotonic() + seconds
    finally:
        connection.close()
    return watching.seen


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--token-file", type=Path, required=True, help="an admin token")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    seen = watch(args.url, args.token_file.read_text().strip(), args.seconds)
    args.out.write_bytes(msgspec.json.encode(seen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
