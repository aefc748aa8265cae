"""What the hub around it does for one agent's session: an interface, so that a session can be tried alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hub.backlog import Settled
    from hub.session import Life
    from wire.frames import Hello, JobHeld, JobReply, KeyInstalled
    from wire.inputs import EventsReceived, StatusReceived


class Home(Protocol):
    """What a life needs of the hub around it: `hub.sessions.Sessions`."""

    async def open(self, life: Life, hello: Hello) -> None:
        """Look the agent up and authenticate, welcome or refuse it."""

    async def events(self, life: Life, received: EventsReceived) -> int:
        """Store events; the committed head.

        Raises:
            ForeignReference: one spoke of a job that is not the agent's; all are stored nevertheless.
        """

    def events_soon(self, life: Life, received: EventsReceived, settled: Settled) -> bool:
        """The same without a task, in the order of the calls; ``settled`` is told the head or why there is none.

        False: these need more than to be stored, or have to wait. Nothing was done.
        """

    def status(self, life: Life, received: StatusReceived) -> None:
        """Take over a status, from memory to memory."""

    def heard(self, life: Life) -> None:
        """Some frame came in an open session."""

    def renewed(self, life: Life, jobs: Sequence[JobHeld]) -> list[JobHeld]:
        """Extend leases; those of the list that hold none."""

    async def late(self, life: Life, held: JobHeld) -> None:
        """The agent is at an attempt without a lease.

        Raises:
            ForeignReference: it is not the agent's.
        """

    async def replied(self, life: Life, reply: JobReply) -> None:
        """The agent answered an assignment.

        Raises:
            ForeignReference: it is not the agent's.
        """

    def key_answered(self, life: Life, answer: KeyInstalled) -> None:
        """The agent says what became of the hub's SSH key."""

    def ended(self, life: Life) -> None:
        """The session is over and its socket about to close; work it received may still be under way."""

    async def closed(self, life: Life) -> None:
        """The session is over and its last work is done."""
