"""Numbered reasons for refusing or ending a session. Numbers are never changed or reused.

A WebSocket closed for one of these carries close code 4000 + number, so that both ends log the same thing.
"""

from enum import IntEnum

WEBSOCKET_CLOSE_BASE = 4000


class Reason(IntEnum):
    """Why a session was refused or ended."""

    GOODBYE = 0
    HUB_STOPPING = 1
    HANDSHAKE_TIMEOUT = 2
    FRAME_TOO_LARGE = 3
    MALFORMED_FRAME = 4
    UNEXPECTED_FRAME = 5
    BAD_SIGNATURE = 6
    UNKNOWN_AGENT = 7
    REVOKED = 8
    UNSUPPORTED_VERSION = 9
    DUPLICATE_IDENTITY = 10
    WRONG_HUB_KEY = 11
    GENERATION_WENT_BACK = 12
    OUT_OF_ORDER = 13
    REPLAYED = 14
    OVERLOADED = 15
    SILENT_PEER = 16
    SLOW_PEER = 17
    REPLACED = 18
    QUOTA = 19
    INTERNAL = 20
    FOREIGN_REFERENCE = 21
    CONNECTION_LOST = 22

    @property
    def close_code(self) -> int:
        """The WebSocket close code that carries this reason, 4000..4999."""
        return WEBSOCKET_CLOSE_BASE + self.value

    @property
    def sentence(self) -> str:
        """What happened and what to do, for logs and pages."""
        return SENTENCES[self]


SENTENCES: dict[Reason, str] = {
    Reason.GOODBYE: "the peer said goodbye",
    Reason.HUB_STOPPING: "the hub is stopping or restarting; the agent reconnects by itself",
    Reason.HANDSHAKE_TIMEOUT: "the handshake was not finished within its time",
    Reason.FRAME_TOO_LARGE: "a frame was larger than agreed",
    Reason.MALFORMED_FRAME: "a frame was not valid MessagePack of a known shape",
    Reason.UNEXPECTED_FRAME: "a frame came that has no place in this state of the session",
    Reason.BAD_SIGNATURE: "the signature of the handshake does not match the key",
    Reason.UNKNOWN_AGENT: "the hub knows no such agent; enrol the node again",
    Reason.REVOKED: "the node was revoked at the hub; enrol it again if that was a mistake",
    Reason.UNSUPPORTED_VERSION: "the two sides speak no common version; upgrade the older one",
    Reason.DUPLICATE_IDENTITY: "another machine holds a live session with the same key; give one of the two a new one",
    Reason.WRONG_HUB_KEY: "the hub's key is not the one pinned at enrolment; enrol again only if the hub was rebuilt",
    Reason.GENERATION_WENT_BACK: "the hub is an older copy of itself; restore its latest data",
    Reason.OUT_OF_ORDER: "events or status came out of order",
    Reason.REPLAYED: "a frame was sent twice",
    Reason.OVERLOADED: "the hub is busy; wait as told",
    Reason.SILENT_PEER: "nothing was heard for too long",
    Reason.SLOW_PEER: "the peer did not take frames in time",
    Reason.REPLACED: "a newer session of the same agent took over",
    Reason.QUOTA: "the node sent more than its quota",
    Reason.INTERNAL: "an internal fault; the log of that side says more",
    Reason.FOREIGN_REFERENCE: "a frame spoke of a job that is not this agent's",
    Reason.CONNECTION_LOST: "the connection was cut without a goodbye; the network or the peer's process failed",
}
