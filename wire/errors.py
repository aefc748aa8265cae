"""What can go wrong on the wire, and whose fault it is.

WireError
├── LocalProtocolError       our own bug: raised to the caller, nothing was sent
└── RemoteProtocolError      the peer's fault: close with .reason, log .detail, go on
    ├── FrameTooLarge
    ├── MalformedFrame
    └── UnexpectedFrame
"""

from wire.reasons import Reason


class WireError(Exception):
    """Base of all errors of the wire."""


class LocalProtocolError(WireError):
    """The caller asked for something the protocol forbids in this state."""


class RemoteProtocolError(WireError):
    """The peer broke the protocol.

    Attributes:
        reason: the numbered reason the session ends with.
        detail: one sentence for the log; holds nothing secret.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(reason, detail)

    def __str__(self) -> str:
        return f"{self.reason.name} ({self.reason.value}): {self.detail}"


class FrameTooLarge(RemoteProtocolError):
    """A frame exceeds the limit in force."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(Reason.FRAME_TOO_LARGE, f"a frame of {size_bytes} bytes; at most {limit_bytes} are allowed")


class MalformedFrame(RemoteProtocolError):
    """A frame is not MessagePack, or not of its declared shape."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.MALFORMED_FRAME, detail)


class UnexpectedFrame(RemoteProtocolError):
    """A frame has no place in the present state."""

    def __init__(self, frame: str, state: str) -> None:
        self.frame = frame
        self.state = state
        super().__init__(Reason.UNEXPECTED_FRAME, f"{frame} came while {state}")
