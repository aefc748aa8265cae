"""Says again and again that the hub is well, to a service elsewhere that raises the alarm when it hears nothing.

What watches cannot tell of its own death. The address is a setting, and held to the same rules as a notice's.
"""

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from hub.alerts.targets import Allowed, refusal
from hub.clock import Clock

log = structlog.get_logger(__name__)

DEADLINE_S = 15.0
ANSWER_BYTES_MAX = 4096


class Word(msgspec.Struct, frozen=True):
    """What is said."""

    status: str
    """``ok``, ``warn`` (some alert of a warning fires) or ``error`` (a critical one does)."""
    hub: str
    nodes: int
    online: int
    alerts: int


class Unreachable(OSError):
    """The address is one that may not be asked."""


class GuardedResolver(AbstractResolver):
    """Names become addresses that may be reached, or none."""

    def __init__(self, allowed: Allowed, inner: AbstractResolver | None = None) -> None:
        self._allowed = allowed
        self._inner = inner or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Of those a name has, the ones that may be reached."""
        found = await self._inner.resolve(host, port, family)
        if self._allowed.host(host):
            return found
        reachable = [one for one in found if not refusal(one["host"], self._allowed)]
        if found and not reachable:
            raise Unreachable(refusal(found[0]["host"], self._allowed))
        return reachable

    async def close(self) -> None:
        """Nothing is held."""
        await self._inner.close()


class Deadman:
    """The task.

    Args:
        word: what to say; None while the hub is not well enough to say anything.
    """

    def __init__(
        self, *, url: str, every_s: float, allowed: Allowed, clock: Clock, word: Callable[[], Word | None]
    ) -> None:
        self._url = url
        self._every_s = every_s
        self._allowed = allowed
        self._clock = clock
        self._word = word
        self.answered_at_ms: int | None = None
        self.failure = ""
        """Of the last try, without the address; empty: all well."""

    async def run(self) -> None:
        """For ever; without an address, nothing."""
        while True:
            if self._url:
                await self.say()
            await asyncio.sleep(self._every_s)

    async def say(self) -> None:
        """Once."""
        word = self._word()
        if word is None:
            self.failure = "the hub is not well: nothing is said, so that it is missed"
            log.warning("the dead-man's ping was not sent", why=self.failure)
            return
        before = self.failure
        try:
            async with asyncio.timeout(DEADLINE_S):
                self.failure = await self._post(word)
        except TimeoutError:
            self.failure = f"no answer within {DEADLINE_S:g} s"
        except (OSError, aiohttp.ClientError, ValueError) as error:
            self.failure = _why(error)
        if not self.failure:
            self.answered_at_ms = self._clock.time_ms()
        elif self.failure != before:
            log.warning("the dead-man's ping came to nothing", why=self.failure)

    async def _post(self, word: Word) -> str:
        host = urlsplit(self._url).hostname or ""
        if _is_address(host) and (why := refusal(host, self._allowed)):
            return why
        connector = aiohttp.TCPConnector(resolver=GuardedResolver(self._allowed), use_dns_cache=False, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector, trust_env=False) as session,
            session.post(
                self._url,
                data=msgspec.json.encode(word),
                headers={"Content-Type": "application/json"},
                allow_redirects=False,
            ) as answer,
        ):
            await answer.content.read(ANSWER_BYTES_MAX)
            return "" if answer.status < HTTPStatus.MULTIPLE_CHOICES else f"it answered {answer.status}"


def _is_address(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        return False
    return True


def _why(error: Exception) -> str:
    """Without the address, which may hold a secret."""
    if isinstance(error, Unreachable):
        return str(error)
    cause = error.__cause__
    if isinstance(cause, Unreachable):
        return str(cause)
    return f"it cannot be reached ({type(error).__name__})"
