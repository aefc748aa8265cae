"""Texts as frames carry them: bounded, and always valid Unicode."""

from typing import Annotated

from msgspec import Meta

from wire.limits import TEXT_CHARS_MAX

Text = Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]

_CUT = " [...] "


def clipped(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    """``text`` as a frame can carry it: head and tail if it is too long, and always valid Unicode.

    Error texts of other programs come in any length and, through the file system's encoding, with lone surrogates.
    ``chars_max`` is at least 16.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= chars_max:
        return text
    tail = (chars_max - len(_CUT)) // 2
    return text[: chars_max - len(_CUT) - tail] + _CUT + text[len(text) - tail :]
