"""What strangers' machines said: how much of it is kept, and how it is shown."""

from hub.children import Bounded


def shortened(data: bytes, bytes_max: int) -> bytes:
    """At most so much of it: head and tail."""
    if len(data) <= bytes_max:
        return data
    bounded = Bounded(bytes_max)
    bounded.add(data)
    return bounded.kept()


def shown(data: bytes) -> str:
    """Bytes of strangers as a terminal or a page may show them: valid Unicode, and no control characters but newlines.

    Escape sequences become visible text, so that nothing another machine said can move a cursor or hide a line.
    """
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return text.translate(_VISIBLE)


class _Visible(dict[int, str]):
    """What stands for a character, found once each."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        self[code] = visible = char if char in "\n\t" or char.isprintable() else f"\\x{code:02x}"
        return visible


_VISIBLE = _Visible()
