"""Many nodes enrol at a hub over HTTP, each with its own key and one of the uses of one token."""

import asyncio
import random
import uuid

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from agent.backoff import Backoff, Kind
from agent.clock import Clock, SystemClock
from agent.config import HubUrl, parse_hub
from agent.enroll import EnrolRefused, Token, enrol, parse_token
from agent.hub_http import HttpClient
from agent.identity import Enrolled, Key

AT_ONCE = 4
"""Requests under way."""


class Identity(Struct, frozen=True):
    """Who an agent is."""

    name: str
    key: Key
    enrolled: Enrolled


async def enrol_many(hub: HubUrl, token: Token, count: int, *, seed: int, name: str, clock: Clock) -> list[Identity]:
    """``count`` nodes called ``name-0000`` and so on; the same seed and name give the same keys and enrolment ids.

    Raises:
        ExceptionGroup: the hub refused one (`EnrolRefused`); while it is only busy or away it is asked again.
    """
    identities: list[Identity] = []
    numbers = iter(range(count))
    async with HttpClient(ca=None, proxies=False) as client, asyncio.TaskGroup() as tasks:

        async def work() -> None:
            for at in numbers:
                rng = random.Random(f"{seed}/{name}/{at}")
                made = await _enrol_one(client, hub, token, f"{name}-{at:04}", rng, clock)
                identities.append(made)

        for _ in range(min(count, AT_ONCE)):
            tasks.create_task(work())
    return sorted(identities, key=lambda identity: identity.name)


async def enrol_at(hub_url: str, token: str, count: int, name: str = "load") -> list[Identity]:
    """The same from texts, for whoever needs no more than identities."""
    hub, parsed = parse_hub(hub_url, insecure=False), parse_token(token, "the hub's answer")
    return await enrol_many(hub, parsed, count, seed=1, name=name, clock=SystemClock())


async def _enrol_one(
    client: HttpClient, hub: HubUrl, token: Token, name: str, rng: random.Random, clock: Clock
) -> Identity:
    key = Key(Ed25519PrivateKey.from_private_bytes(rng.randbytes(32)))
    enrollment_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    backoff = Backoff(rng)
    while True:
        try:
            enrolled = await enrol(client, hub=hub, token=token, enrollment_id=enrollment_id, key=key, name=name)
        except EnrolRefused as refused:
            if refused.fault.kind is Kind.REFUSED:
                raise
            await clock.sleep(backoff.after(refused.fault, session_s=None))
        else:
            return Identity(name=name, key=key, enrolled=enrolled)
