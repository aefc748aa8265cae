"""The agent's watch over its own way to the hub.

Nothing here should ever be needed: the uplink has no state that it does not leave by itself. If it does get stuck, the
node would stay offline until somebody looks, so this asks from outside: when nothing was acknowledged for minutes
although a fresh connection gets through, the agent ends with exit code 75 and whoever supervises it starts it anew. Its
worker, and a proof in progress, are not touched.
"""

from collections.abc import Awaitable, Callable

import structlog

from agent.clock import Clock
from agent.errors import AgentError
from agent.uplink import State, UplinkView
from wire.limits import RECONNECT_CAP_S

log = structlog.get_logger(__name__)

UNHEARD_S = 300.0
"""Without any acknowledgement, before the first probe."""
CONFIRM_S = 120.0
"""Probes get through for this long and the uplink still does not: longer than any wait of its own."""
LOOK_EVERY_S = 30.0
WATCHED = frozenset({State.CONNECTING, State.OPEN, State.WAITING})
"""States in which an acknowledgement is due. Where the hub refuses, or any session ended with a numbered reason in the
last minutes, the way works and a restart would change nothing."""


class Stuck(AgentError):
    """The uplink does not get through although the way is free. Started again, the agent begins afresh."""

    exit_code = 75


class Watch:
    """Pure: what is known about the uplink in, whether to probe and whether it is stuck out."""

    def __init__(self, started_s: float) -> None:
        self._started_s = started_s
        self._free_since_s: float | None = None
        """When the first of the probes in a row got through."""

    def unheard_s(self, view: UplinkView, now_s: float) -> float:
        """How long nothing was acknowledged."""
        return now_s - max(self._started_s, self._started_s if view.last_ack_s is None else view.last_ack_s)

    def wants_probe(self, view: UplinkView, now_s: float) -> bool:
        """Whether it is time to ask from outside."""
        reason = view.last_reason
        numbered = reason is not None and reason.code is not None
        answered = view.state is not State.OPEN and numbered and now_s - view.last_reason_s < UNHEARD_S
        waits = view.next_attempt_s is not None and view.next_attempt_s - now_s > RECONNECT_CAP_S
        due = view.state in WATCHED and not answered and not waits and self.unheard_s(view, now_s) >= UNHEARD_S
        if not due:
            self._free_since_s = None
        return due

    def probed(self, *, free: bool, now_s: float) -> bool:
        """Take the answer of a probe; whether the uplink is stuck."""
        if not free:
            self._free_since_s = None
            return False
        if self._free_since_s is None:
            self._free_since_s = now_s
        return now_s - self._free_since_s >= CONFIRM_S


async def watch(view: UplinkView, probe: Callable[[], Awaitable[bool]], *, clock: Clock) -> None:
    """Watch for ever.

    Raises:
        Stuck: only a fresh start can help.
    """
    state = Watch(clock.monotonic())
    while True:
        await clock.sleep(LOOK_EVERY_S)
        if not state.wants_probe(view, clock.monotonic()):
            continue
        free = await probe()
        unheard_s = state.unheard_s(view, clock.monotonic())
        log.warning("watchdog.probed", free=free, state=view.state.value, unheard_s=round(unheard_s))
        if state.probed(free=free, now_s=clock.monotonic()) and state.wants_probe(view, clock.monotonic()):
            sentence = (
                f"nothing was acknowledged for {unheard_s:.0f} s although a fresh connection to the hub gets through; "
                "ending with exit code 75, so that the supervisor starts the agent anew (workers go on)"
            )
            log.error("watchdog.stuck", detail=sentence, state=view.state.value, exit_code=Stuck.exit_code)
            raise Stuck(sentence)
