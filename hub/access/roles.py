"""Roles, and whom a request was recognised as; pure.

A role holds everything the roles below it hold. What a route needs is declared beside the route.
"""

from enum import StrEnum

from msgspec import Struct


class Role(StrEnum):
    """What somebody may do; `at_least` compares."""

    VIEWER = "viewer"
    """Reads everything but who may come in."""
    OPERATOR = "operator"
    """Also acts on nodes and jobs."""
    ADMIN = "admin"
    """Also says who may come in, people and nodes, and reads who did what."""

    def at_least(self, least: "Role") -> bool:
        """Whether this role holds what ``least`` holds."""
        return RANKS[self] >= RANKS[least]


RANKS = {role: rank for rank, role in enumerate(Role)}


class Kind(StrEnum):
    """By what credential a request came in."""

    NOBODY = "nobody"
    ADMIN_TOKEN = "admin_token"  # noqa: S105 - a word
    """The token in the hub's own file: whoever has it can read files on the hub's machine."""
    TOKEN = "token"  # noqa: S105 - a word
    """A token made for a program."""
    USER = "user"
    """A person's browser session, opened with name and password."""
    LINK = "link"
    """A browser session opened by a one-time link or the admin token: somebody at the hub's machine."""
    NODE = "node"
    """A fetch token: reads the inputs of one attempt."""


FOR_ALL = frozenset({"me", "meta", "page"})
"""Areas a token is never held off."""
BROWSERS = frozenset({Kind.USER, Kind.LINK})


class Identity(Struct, frozen=True, kw_only=True):
    """Whose request it is."""

    kind: Kind
    name: str
    """For people to read: a user's or a token's name."""
    role: Role | None
    """None for nobody, and for a node, whose token opens nothing by role."""
    id: str = ""
    """Of the user or token; empty for those that have none."""
    session_id: str = ""
    """Of a browser's session."""
    areas: frozenset[str] = frozenset()
    """The areas of the interface a token is held to; all of them if empty."""

    @property
    def browser(self) -> bool:
        """Whether a browser's session asks, which is held to this host and this origin."""
        return self.kind in BROWSERS

    @property
    def owner(self) -> str:
        """What tells one asker from another, also where the names are alike."""
        return f"{self.kind.value}:{self.id}"

    def may(self, least: Role, area: str) -> bool:
        """Whether a route that needs ``least``, of an area, opens."""
        if self.role is None or not self.role.at_least(least):
            return False
        return not self.areas or area in self.areas or area in FOR_ALL


NOBODY = Identity(kind=Kind.NOBODY, name="", role=None)
ADMIN_TOKEN = Identity(kind=Kind.ADMIN_TOKEN, name="admin token", role=Role.ADMIN)
