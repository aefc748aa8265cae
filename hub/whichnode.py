"""Which node somebody means: by id, by name, or by a beginning of the id that only one has; pure."""

from collections.abc import Iterable

PREFIX_CHARS_MIN = 4
CANDIDATES_SHOWN = 8
WANTED_SHOWN_CHARS = 80


class NoSuchNode(LookupError):
    """Nobody goes by this."""


class SeveralNodes(LookupError):
    """More than one does; the sentence lists them."""


def which(nodes: Iterable[tuple[str, str]], wanted: str) -> str:
    """The id of the one node that is meant.

    Args:
        nodes: id and name of each.
        wanted: an id, a name that only one has, or a beginning of one's id, of four characters or more.

    Raises:
        NoSuchNode: there is none.
        SeveralNodes: there are several.
    """
    all_ = list(nodes)
    if any(node_id == wanted for node_id, _ in all_):
        return wanted
    found = [(node_id, name) for node_id, name in all_ if name == wanted]
    if not found and len(wanted) >= PREFIX_CHARS_MIN:
        found = [(node_id, name) for node_id, name in all_ if node_id.startswith(wanted.lower())]
    shown = repr(wanted if len(wanted) <= WANTED_SHOWN_CHARS else f"{wanted[:WANTED_SHOWN_CHARS]}...")
    if not found:
        raise NoSuchNode(f"there is no node {shown}")
    if len(found) > 1:
        listed = ", ".join(f"{name} ({node_id})" for node_id, name in found[:CANDIDATES_SHOWN])
        more = "" if len(found) <= CANDIDATES_SHOWN else f" and {len(found) - CANDIDATES_SHOWN} more"
        raise SeveralNodes(f"{len(found)} nodes go by {shown}: {listed}{more}; give more of the id")
    return found[0][0]
