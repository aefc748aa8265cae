"""Why a daemon's status could not be read: a named state and a sentence that says what to do."""

from wire.engines import EngineState

QUOTE_CHARS = 200
"""What is quoted of another program's answer."""


class Unreadable(Exception):
    """No status could be had; ``state`` says which of the named troubles it is."""

    def __init__(self, state: EngineState, detail: str) -> None:
        self.state = state
        self.detail = detail
        super().__init__(detail)


class Refused(Exception):
    """Nobody listens at the address of the status."""


def quoted(raw: bytes) -> str:
    """The beginning of what another program said, on one line and printable."""
    text = raw[: QUOTE_CHARS * 4].decode("utf-8", "backslashreplace")
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return repr(line[:QUOTE_CHARS])
