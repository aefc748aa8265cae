"""The way in for agents, ``/agent``: what is refused before a WebSocket costs anything.

A stranger costs the hub one HTTP answer: too many newcomers at once, too many unfinished handshakes and a missing
subprotocol are turned away before the upgrade, with a hint when to come again. The hints are spread, so that those who
are turned away do not come back together.

Who names a known node in the request's header goes first: strangers leave half of the places and of the tokens to the
fleet, and each of their addresses gets a quarter of what is left. An address alone says little, since behind a proxy
all have the same. The header proves nothing, so a name is believed only as often as one node may come.

A hub that is slower than its rate lets in only as many as it can welcome before they give up: else they come again,
and all its time goes into handshakes with those who have left.
"""

import math
import random
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import hdrs, web

from hub.api.errors import Problem
from hub.channels.websocket import WebSocketChannel
from hub.clock import Clock
from hub.config import Config
from hub.rates import TokenBucket
from hub.sessions import Sessions
from wire.limits import AGENT_HEADER, PROTOCOL

PATH = "/agent"
GONE = "gone"
"""Counted as turned away: who closed the connection before the hub came to the request."""
FULL_RETRY_S = 5
"""When to come again while too many handshakes are unfinished."""
RETRY_MAX_S = 60.0
"""No hint is longer: the promise is that a fleet is back within a minute."""
STRANGERS_SHARE = 2
"""Strangers may take this part of the unfinished handshakes and of the tokens that were saved up."""
ADDRESS_SHARE = 4
"""One stranger's address may have this part of either."""
KNOCKS_PER_S = 0.5
"""How often one node's name is believed: its backoff is slower."""
KNOCKS_BURST = 10
BEHIND_S = 1.5
"""When half of the nodes in the handshake wait for longer, the hub is short of a processor and welcomes no more ..."""
BEHIND_NODES_MIN = 16
"""... unless they are so few that it may be their own network."""
REMEMBERED_MAX = 4096
"""Addresses of strangers, and names of nodes, whose rates are remembered."""


class Gate:
    """Lets agents in."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        sessions: Sessions,
        is_node: Callable[[str], bool],
        rng: random.Random | None = None,
    ) -> None:
        """``is_node``: whether an id is of a node that may come."""
        self._clock = clock
        self._sessions = sessions
        self._is_node = is_node
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._unauthenticated_max = config.unauthenticated_max
        self._per_s = config.accept_per_s
        self._burst = config.accept_burst
        self._bucket = TokenBucket(clock, config.accept_per_s, config.accept_burst)
        self._nodes: dict[str, TokenBucket] = {}
        self._addresses: dict[str, TokenBucket] = {}
        self._booked_s = 0.0
        """Until when places are promised to those who were turned away."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Upgrade a request and serve its session to the end."""
        if request.transport is None or request.transport.is_closing():
            # It gave up while it waited for a busy hub: no place, no token, and no traceback for each of a thousand.
            self._sessions.traffic.turned_away[GONE] += 1
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        known = self._known(request.headers.get(AGENT_HEADER, ""))
        refusal = self._misspoken(request) or self.crowded(request.remote or "", known=known)
        if refusal is not None:
            self._sessions.traffic.turned_away[str(refusal.code)] += 1
            return refusal.response()
        channel = await WebSocketChannel.accept(request)
        await self._sessions.serve(channel, known=known)
        return channel.response

    def _known(self, name: str) -> bool:
        """Whether the header names a node that may come, and not too often."""
        if not name or not self._is_node(name):
            return False
        return (
            _remembered(self._nodes, name, lambda: TokenBucket(self._clock, KNOCKS_PER_S, KNOCKS_BURST)).take() == 0.0
        )

    def _misspoken(self, request: web.Request) -> Problem | None:
        """Why this is no agent's request, if so."""
        if request.headers.get(hdrs.UPGRADE, "").lower() != "websocket":
            detail = "agents speak WebSocket here; if a proxy stands between, let it pass Upgrade and Connection on"
            return Problem(426, "upgrade_required", detail, {hdrs.UPGRADE: "websocket"})
        offered = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "")
        if PROTOCOL not in [item.strip() for item in offered.split(",")]:
            return Problem(400, "unsupported_version", f"this hub speaks the subprotocol {PROTOCOL}, not {offered!r}")
        return None

    def crowded(self, remote: str, *, known: bool) -> Problem | None:
        """Why a request of ours has to come again later, if so; else its token is taken."""
        if self._sessions.stopping:
            return _later(self._rng.uniform(1.0, max(2.0, self._sessions.reconnect_spread_s)), "the hub is stopping")
        if full := self._full(remote, known=known):
            return _later(FULL_RETRY_S, full)
        if known:
            return self._crowded_for_nodes()
        if self._bucket.tokens <= self._burst / STRANGERS_SHARE:
            return _later(
                self._rng.uniform(RETRY_MAX_S / 6, RETRY_MAX_S), "the fleet comes back, and its nodes go first"
            )
        address = _remembered(self._addresses, remote, self._address_bucket)
        if address.take() > 0.0 or self._bucket.take() > 0.0:
            return _later(self._rng.uniform(RETRY_MAX_S / 6, RETRY_MAX_S), "too many come from this address")
        return None

    def _address_bucket(self) -> TokenBucket:
        return TokenBucket(self._clock, self._per_s / ADDRESS_SHARE, max(1.0, self._burst / ADDRESS_SHARE))

    def _full(self, remote: str, *, known: bool) -> str:
        """Why no further handshake may begin; empty if one may."""
        places = self._unauthenticated_max
        if self._sessions.unauthenticated >= places:
            return "too many handshakes are unfinished"
        if known:
            return ""
        if self._sessions.strangers >= max(1, places // STRANGERS_SHARE):
            return "too many handshakes of strangers are unfinished"
        if self._sessions.strangers_from(remote) >= max(1, places // ADDRESS_SHARE):
            return "too many handshakes from this address are unfinished"
        return ""

    def _crowded_for_nodes(self) -> Problem | None:
        if self._behind():
            return _later(max(FULL_RETRY_S, self._booking_s()), "the hub is behind with those who came before")
        return None if self._bucket.take() == 0.0 else _later(self._booking_s(), "too many agents come at once")

    def _behind(self) -> bool:
        """Whether nodes wait too long to be welcomed."""
        ages_s = self._sessions.waiting_s()
        return len(ages_s) >= BEHIND_NODES_MIN and ages_s[len(ages_s) // 2] > BEHIND_S

    def _booking_s(self) -> float:
        """Until the next place nobody was told yet; when too many wait for that, any time within the longest hint."""
        now_s = self._clock.monotonic()
        self._booked_s = max(self._booked_s, now_s) + 1.0 / self._per_s
        wait_s = self._booked_s - now_s
        if wait_s > RETRY_MAX_S:
            self._booked_s = now_s + RETRY_MAX_S
            wait_s = self._rng.uniform(1.0, RETRY_MAX_S)
        return wait_s


def _remembered(buckets: dict[str, TokenBucket], key: str, make: Callable[[], TokenBucket]) -> TokenBucket:
    """The bucket of a key, the oldest forgotten for it if there are too many."""
    bucket = buckets.get(key)
    if bucket is None:
        if len(buckets) >= REMEMBERED_MAX:
            del buckets[next(iter(buckets))]
        bucket = buckets[key] = make()
    return bucket


def _later(seconds: float, detail: str) -> Problem:
    whole_s = max(1, math.ceil(seconds))
    code = "stopping" if "stopping" in detail else "overloaded"
    return Problem(503, code, f"{detail}; come again in {whole_s} s", {hdrs.RETRY_AFTER: str(whole_s)})
