"""Ids by how they begin, of what is too much to be held in memory."""

from sqlalchemy import Connection, literal, select

from hub.store.base import PAGE_MAX, Listed
from hub.store.schema import ARTIFACTS, CIRCUITS, ENROLL_TOKENS, JOBS, SSH_ATTEMPTS

_NOBODY = literal("")
WHERE = {
    Listed.JOBS: (JOBS.c.id, JOBS.c.label),
    Listed.CIRCUITS: (CIRCUITS.c.id, CIRCUITS.c.name),
    Listed.ARTIFACTS: (ARTIFACTS.c.sha256, _NOBODY),
    Listed.ENROLL_TOKENS: (ENROLL_TOKENS.c.id, _NOBODY),
    Listed.SSH_ATTEMPTS: (SSH_ATTEMPTS.c.id, _NOBODY),
}
"""The column of ids, and the one of names."""
AFTER_ALL = "\x7f"
"""Sorts behind whatever stands in an id."""


def like(connection: Connection, listed: Listed, beginning: str, limit: int) -> list[tuple[str, str]]:
    """Ids that begin so, in order, with names: a range of the index and no search."""
    ids, names = WHERE[listed]
    query = select(ids, names).where(ids >= beginning, ids < beginning + AFTER_ALL)
    return [(row[0], row[1] or "") for row in connection.execute(query.order_by(ids).limit(min(limit, PAGE_MAX)))]
