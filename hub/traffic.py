"""Counts for the metrics: what went over the agents' sockets, and why sessions ended or were refused."""

from collections import Counter

from wire.inputs import (
    Ended,
    EventsReceived,
    HelloReceived,
    HubInput,
    KeyAnswered,
    PeerUnsupported,
    Renewed,
    Replied,
    StatusReceived,
)

KINDS: dict[type, str] = {
    HelloReceived: "hello",
    StatusReceived: "status",
    EventsReceived: "events",
    Replied: "job_reply",
    KeyAnswered: "key_installed",
    Renewed: "lease_renew",
    PeerUnsupported: "unsupported",
    Ended: "bye",
}
"""By what a frame means; one that means nothing (an unknown type, a status after a gap) is ``other``."""

TURNED_AWAY = ("upgrade_required", "unsupported_version", "stopping", "overloaded", "gone")
"""Codes of what the gate answers instead of an upgrade; ``gone``: its asker had left before."""


class Traffic:
    """Counts of all sessions together."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "ends",
        "frames",
        "frames_in",
        "frames_out",
        "held_back",
        "opened",
        "turned_away",
    )

    def __init__(self) -> None:
        self.frames = 0
        """That came, of all kinds."""
        self.frames_in: Counter[str] = Counter()
        self.bytes_in = 0
        self.frames_out = 0
        self.bytes_out = 0
        self.held_back = 0
        """Frames after which a session was not read for a while, because its agent sends too many."""
        self.opened = 0
        """Sessions opened."""
        self.ends: Counter[tuple[bool, int]] = Counter()
        """(whether it was open, code of the reason): sessions ended, and newcomers refused in the handshake."""
        self.turned_away: Counter[str] = Counter()
        """Requests for a session refused before the upgrade, by the code of the answer."""

    def received(self, size_bytes: int, happened: list[HubInput]) -> None:
        """One frame came."""
        self.frames += 1
        self.bytes_in += size_bytes
        self.frames_in[KINDS[type(happened[0])] if happened else "other"] += 1

    def sent(self, size_bytes: int) -> None:
        """One frame was handed over."""
        self.frames_out += 1
        self.bytes_out += size_bytes
