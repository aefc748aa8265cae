"""Answers the hub's wish to have its SSH key let in, as this node's operator has decided; both ends are told."""

import asyncio
from collections.abc import Callable

import structlog

from agent import ssh_keys
from agent.outbox import Outbox
from wire.frames import InstallKey, KeyInstalled, Level
from wire.text import clipped

log = structlog.get_logger(__name__)

NOT_ALLOWED = "this node does not allow it; start its agent with --allow-key-install to let the hub do this"


async def let_in(offer: InstallKey, *, allowed: bool, outbox: Outbox, answer: Callable[[KeyInstalled], None]) -> None:
    """Install the key, or do not, and say what became of it."""
    ok, detail = False, NOT_ALLOWED
    if allowed:
        try:
            ok, detail = True, await asyncio.to_thread(ssh_keys.install, offer.user, offer.public_key)
        except ssh_keys.KeyNotInstalled as refused:
            detail = str(refused)
    say = log.info if ok else log.warning
    say("ssh_key.installed" if ok else "ssh_key.refused", user=offer.user, detail=detail)
    kind, level = ("ssh.key_installed", Level.INFO) if ok else ("ssh.key_refused", Level.WARNING)
    await outbox.say(kind, detail, level, user=offer.user)
    answer(KeyInstalled(offer.request, ok, clipped(detail)))
