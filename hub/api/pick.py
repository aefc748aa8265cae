"""Which of several somebody means: by id, or by a beginning of it that only one has."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus

from hub.api.errors import Candidate, Problem, not_found, shortened
from hub.store.base import Listed, Store

PREFIX_CHARS_MIN = 4
CANDIDATES_MAX = 8

STORED_ID_CHARS = {Listed.CIRCUITS: 64, Listed.ARTIFACTS: 64}
"""Of a whole id; others are UUIDs."""
UUID_CHARS = 36
ID_CHARS = frozenset("0123456789abcdef-")


def ambiguous(what: str, wanted: str, found: Sequence[tuple[str, str]]) -> Problem:
    """409 with those it could be, by id and name; one more than are shown says that there are more."""
    shown = [Candidate(each, name) for each, name in found[:CANDIDATES_MAX]]
    listed = ", ".join(each if not name else f"{name} ({each})" for each, name in found[:CANDIDATES_MAX])
    more = " and more" if len(found) > CANDIDATES_MAX else ""
    return Problem(
        HTTPStatus.CONFLICT,
        "ambiguous",
        f"{what} {shortened(wanted)} could be {listed}{more}; give more of the id",
        candidates=shown,
    )


def pick(what: str, wanted: str, known: Iterable[tuple[str, str]]) -> str:
    """The id of the one that is meant.

    Args:
        what: what it is one of, for the answer.
        wanted: an id, a beginning of one, or a name that only one has.
        known: id and name of each.

    Raises:
        Problem: 404 for none, 409 for several.
    """
    all_ = list(known)
    for each, _ in all_:
        if each == wanted:
            return each
    found = [one for one in all_ if one[1] == wanted]
    if not found and len(wanted) >= PREFIX_CHARS_MIN:
        found = [one for one in all_ if one[0].startswith(wanted.lower())]
    if not found:
        raise not_found(what, wanted)
    if len(found) > 1:
        raise ambiguous(what, wanted, found)
    return found[0][0]


async def pick_stored(store: Store, listed: Listed, what: str, wanted: str) -> str:
    """The id that is meant, of what lies in the store; a whole one is not looked for, and may be nobody's.

    Raises:
        Problem: 404 for none, 409 for several.
    """
    wanted = wanted.lower()
    if len(wanted) >= STORED_ID_CHARS.get(listed, UUID_CHARS):
        return wanted
    found: list[tuple[str, str]] = []
    if len(wanted) >= PREFIX_CHARS_MIN and set(wanted) <= ID_CHARS:
        found = await store.like(listed, wanted, limit=CANDIDATES_MAX + 1)
    if not found:
        raise not_found(what, wanted)
    if len(found) > 1:
        raise ambiguous(what, wanted, found)
    return found[0][0]
