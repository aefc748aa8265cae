"""Asks nodes over their live sessions to let the hub's key in, and waits for what they answer."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from hub.ids import uuid7
from wire.frames import InstallKey, KeyInstalled


class Asked(Struct, frozen=True):
    """Who was asked, and who waits."""

    agent_id: str
    answer: asyncio.Future[KeyInstalled]


class KeyOffers:
    """Questions under way; an answer counts only from the node that was asked."""

    def __init__(self) -> None:
        self._asked: dict[str, Asked] = {}

    async def ask(
        self, agent_id: str, send: Callable[[InstallKey], bool], *, user: str, public_key: str, within_s: float
    ) -> KeyInstalled | None:
        """Ask one node; None: no session is open, or it does not answer in time."""
        frame = InstallKey(request=uuid7(), user=user, public_key=public_key)
        answer: asyncio.Future[KeyInstalled] = asyncio.get_running_loop().create_future()
        self._asked[frame.request] = Asked(agent_id, answer)
        try:
            if not send(frame):
                return None
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._asked[frame.request]

    def answered(self, agent_id: str, answer: KeyInstalled) -> bool:
        """An answer came; whether anybody waits for it."""
        asked = self._asked.get(answer.request)
        if asked is None or asked.agent_id != agent_id or asked.answer.done():
            return False
        asked.answer.set_result(answer)
        return True
