"""What of a request may be kept: everything but its secrets, and nothing long; pure."""

import msgspec
from msgspec import Struct

SECRETS = frozenset({"password", "old", "new", "secret", "token", "code", "signature", "url"})
HIDDEN = "***"
TEXT_CHARS_MAX = 200
ITEMS_MAX = 20
DETAIL_CHARS_MAX = 2000


def kept(body: Struct) -> str:
    """A request's body as JSON, without its secrets, shortened."""
    text = msgspec.json.encode(_shown(msgspec.to_builtins(body))).decode()
    if len(text) <= DETAIL_CHARS_MAX:
        return text
    return msgspec.json.encode(f"{text[: DETAIL_CHARS_MAX // 2]}...").decode()


def _shown(value: object, name: str = "") -> object:
    if name in SECRETS and value:
        return HIDDEN
    match value:
        case dict():
            shown: object = {key: _shown(item, key) for key, item in list(value.items())[:ITEMS_MAX]}
        case list():
            shown = [_shown(item) for item in value[:ITEMS_MAX]]
            if len(value) > ITEMS_MAX:
                shown = [*shown, f"... {len(value) - ITEMS_MAX} more"]
        case str() if len(value) > TEXT_CHARS_MAX:
            shown = f"{value[:TEXT_CHARS_MAX]}... ({len(value)} characters)"
        case _:
            shown = value
    return shown
