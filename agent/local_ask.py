"""What a running agent says of itself: asked on the unix socket of its local view, for the command and for tests."""

import asyncio
import errno
from pathlib import Path

import aiohttp

from agent.errors import ConfigFault, StatusUnreachable
from agent.local import NONCE
from wire.signed_status import NONCE_BYTES

ASK_S = 5.0
ANSWER_BYTES_MAX = 1024 * 1024
OK = 200


async def ask(socket_path: Path) -> bytes:
    """The ``/status`` JSON of the agent that listens at ``socket_path``.

    Raises:
        StatusUnreachable: none answers.
    """
    status, raw = await _get(socket_path, "/status")
    if status != OK:
        raise StatusUnreachable(f"the agent at {socket_path} answered HTTP {status}")
    return raw


async def ask_frame(socket_path: Path, nonce: str) -> str:
    """The signed status of the agent that listens at ``socket_path``: one word.

    Raises:
        StatusUnreachable: none answers, or it has none to give.
        ConfigFault: the nonce is none.
    """
    if not NONCE.fullmatch(nonce):
        raise ConfigFault(f"--nonce must be {NONCE_BYTES} bytes in lower-case hex, {2 * NONCE_BYTES} digits")
    status, raw = await _get(socket_path, f"/frame?nonce={nonce}")
    text = raw.decode("utf-8", "replace").strip()
    if status != OK:
        raise StatusUnreachable(f"the agent at {socket_path} gives no signed status: {text.splitlines()[0][:200]}")
    return text


async def _get(socket_path: Path, path: str) -> tuple[int, bytes]:
    """Status and body of one answer."""
    timeout = aiohttp.ClientTimeout(total=ASK_S)
    try:
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket_path)), timeout=timeout) as session,
            session.get(f"http://localhost{path}") as response,
        ):
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise StatusUnreachable(f"the agent at {socket_path} answers without end")
            return response.status, bytes(body)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        if isinstance(error, PermissionError) or getattr(error, "errno", None) == errno.EACCES:
            raise StatusUnreachable(
                f"{socket_path} is another user's; run this as the user of the agent, or as root"
            ) from None
        raise StatusUnreachable(
            f"no agent answers at {socket_path}; is it running, and is --data-dir the one it uses?"
        ) from None


def ask_now(socket_path: Path) -> bytes:
    """`ask`, for a command that has no event loop."""
    return asyncio.run(ask(socket_path))


def ask_frame_now(socket_path: Path, nonce: str) -> str:
    """`ask_frame`, for a command that has no event loop."""
    return asyncio.run(ask_frame(socket_path, nonce))
