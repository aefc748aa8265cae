"""Passwords: hashed with Argon2id in threads of their own, a few at a time, so that nobody else waits for it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from aiohttp import web
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

AT_ONCE_MAX = 2
"""Each takes 19 MiB and some 20 ms of a core."""
WAITING_MAX = 32
"""Beyond these whoever comes is told to come again."""
CHARS_MIN = 10
CHARS_MAX = 256
MEMORY_KIB = 19 * 1024
TIME_COST = 2
LANES = 1


class TooBusy(Exception):
    """Too many passwords wait to be checked."""


class Passwords:
    """Makes and checks hashes."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=TIME_COST, memory_cost=MEMORY_KIB, parallelism=LANES)
        self._threads = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="password")
        self._waiting = 0
        self._nobodys = ""
        """A hash no password is known of: for names that do not exist, so that they take as long as others."""

    async def hash(self, password: str) -> str:
        """A new hash, with a salt of its own.

        Raises:
            TooBusy: come again.
        """
        return await self._run(self._hasher.hash, password)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether a password is the one; None, for a name that is nobody's, takes as long.

        Raises:
            TooBusy: come again.
        """
        if password_hash is None:
            self._nobodys = self._nobodys or await self.hash("a password that is nobody's")
            await self._run(self._check, self._nobodys, password)
            return False
        return bool(await self._run(self._check, password_hash, password))

    def outdated(self, password_hash: str) -> bool:
        """Whether a hash was made with other costs than today's."""
        return self._hasher.check_needs_rehash(password_hash)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _check(self, password_hash: str, password: str) -> str:
        try:
            return "yes" if self._hasher.verify(password_hash, password) else ""
        except (VerificationError, InvalidHashError):
            return ""

    async def _run(self, *call: object) -> str:
        if self._waiting >= WAITING_MAX:
            raise TooBusy("too many people log in at this moment")
        self._waiting += 1
        try:
            result: str = await asyncio.get_running_loop().run_in_executor(self._threads, *call)  # type: ignore[arg-type]
        finally:
            self._waiting -= 1
        return result


PASSWORDS = web.AppKey("PASSWORDS", Passwords)
