"""How long to stay away after a failure, and what a failure of the connection means. Pure: no I/O, no clock.

The rule: full jitter, ``uniform(0, min(cap, 1 s * 2**failures))``; the cap is 20 s while the hub cannot be reached
and 90 s when it answered and refused. A wait the hub told is honoured, and spread over a fleet. After a stable session
the count begins anew. There is no failure after which the agent gives up.
"""

import random
import ssl
from enum import StrEnum

from msgspec import Struct
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI, WebSocketException

from wire.limits import RECONNECT_CAP_S, REFUSED_CAP_S
from wire.reasons import Reason

BASE_S = 1.0
LOUD_BASE_S = 20.0
STABLE_SESSION_S = 60.0
"""A session this long proves that the way works: the next failure counts as the first."""
TOLD_WAIT_S_MAX = 900.0
"""A refusal is not signed: a stranger in the way may keep a node off no longer than this at a time."""
TOLD_SPREAD_RATIO = 0.1
HTTP_TOO_MANY = 429
HTTP_UNAVAILABLE = 503
HTTP_SERVER_ERROR = 500

LOUD = frozenset(
    {
        Reason.BAD_SIGNATURE,
        Reason.UNKNOWN_AGENT,
        Reason.REVOKED,
        Reason.UNSUPPORTED_VERSION,
        Reason.DUPLICATE_IDENTITY,
        Reason.WRONG_HUB_KEY,
        Reason.GENERATION_WENT_BACK,
    }
)
"""Reasons that rarely heal without a person: logged as errors, retried slowly, still for ever."""


class Kind(StrEnum):
    """What sort of failure it was; decides the cap."""

    UNREACHABLE = "unreachable"
    """Nobody answered, or the way broke."""
    REFUSED = "refused"
    """Somebody answered and did not want us, or was not who we want."""


class Fault(Struct, frozen=True):
    """Why there is no session, as logs and the local view show it."""

    kind: Kind
    name: str
    """Stable: a `wire.reasons.Reason` name, or one of the agent's own in lower case."""
    detail: str
    code: int | None = None
    """The numbered reason, where there is one."""
    wait_s: float = 0.0
    """What the hub told; 0 for nothing."""

    @property
    def loud(self) -> bool:
        """Whether a person has to look."""
        return self.kind is Kind.REFUSED and (self.code is None or self.code in LOUD)


def of_reason(code: int, detail: str, wait_s: float, *, refused: bool) -> Fault:
    """The fault behind a numbered reason; numbers of a newer hub keep their number."""
    try:
        reason: Reason | None = Reason(code)
    except ValueError:
        reason = None
    name = reason.name if reason is not None else f"REASON_{code}"
    sentence = reason.sentence if reason is not None else "a reason this version does not know"
    said = f"{sentence}: {detail}" if detail else sentence
    kind = Kind.REFUSED if refused or reason in LOUD else Kind.UNREACHABLE
    return Fault(kind=kind, name=name, detail=said, code=int(code), wait_s=wait_s)


def tls_fault(error: BaseException) -> Fault:
    """The way to the hub could not be secured."""
    detail = f"the hub's certificate or TLS was not accepted ({error}); --ca names certificates to trust as well"
    return Fault(Kind.REFUSED, "tls", detail)


def of_exception(  # noqa: PLR0911 - one line for each kind of failure
    error: BaseException,
) -> Fault:
    """What an exception of the connection means. Everything is tried again; the kind decides how soon."""
    if isinstance(error, InvalidStatus):
        return _of_status(error)
    if isinstance(error, ssl.SSLError):
        return tls_fault(error)
    if isinstance(error, TimeoutError):
        return Fault(Kind.UNREACHABLE, "timeout", "the hub did not answer in time")
    if isinstance(error, OSError):
        return Fault(Kind.UNREACHABLE, "network", f"the hub cannot be reached: {error}")
    if isinstance(error, InvalidURI):
        return Fault(Kind.REFUSED, "address", f"the hub's address cannot be used: {error}")
    if isinstance(error, InvalidHandshake):
        # Also what a proxy that cuts the connection, or a server that is no hub, looks like.
        kind = Kind.UNREACHABLE if isinstance(error.__cause__, EOFError | OSError) else Kind.REFUSED
        return Fault(kind, "handshake", f"what answers is no hub that speaks our protocol: {error}")
    if isinstance(error, WebSocketException):
        return Fault(Kind.UNREACHABLE, "websocket", f"the connection broke: {error}")
    return Fault(Kind.UNREACHABLE, "internal", f"{type(error).__name__}: {error}")


def _of_status(error: InvalidStatus) -> Fault:
    status = error.response.status_code
    wait_s = _retry_after_s(error.response.headers.get("Retry-After"))
    detail = f"the hub answered HTTP {status} instead of opening the session"
    if status in (HTTP_TOO_MANY, HTTP_UNAVAILABLE):
        # A hub that is busy says how long; without that it is more likely a proxy whose hub is restarting.
        kind = Kind.REFUSED if wait_s > 0.0 else Kind.UNREACHABLE
        return Fault(kind, "busy", detail, code=int(Reason.OVERLOADED), wait_s=wait_s)
    kind = Kind.UNREACHABLE if status >= HTTP_SERVER_ERROR else Kind.REFUSED
    return Fault(kind, f"http_{status}", detail, wait_s=wait_s)


def _retry_after_s(value: str | None) -> float:
    """Seconds of a Retry-After header; dates and nonsense count as not told."""
    if value is None or not value.isascii() or not value.isdigit():
        return 0.0
    return float(value[:6])


class Backoff:
    """Counts failures and draws the waits between attempts."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.failures = 0

    def after(self, fault: Fault, *, session_s: float | None, spread_s: float = 0.0) -> float:
        """The wait after ``fault``, in seconds.

        Args:
            fault: why there is no session now.
            session_s: how long the session was open; None if it never was.
            spread_s: what the last welcome asked for: after a session's end the fleet comes back over this time.
        """
        if session_s is not None and session_s >= STABLE_SESSION_S:
            self.failures = 0
        cap_s = REFUSED_CAP_S if fault.kind is Kind.REFUSED else RECONNECT_CAP_S
        # 2**6 s is above any cap; a larger power would only overflow one day.
        ceiling_s = min(cap_s, BASE_S * 2.0 ** min(self.failures, 7))
        if session_s is not None:
            ceiling_s = max(ceiling_s, min(spread_s, REFUSED_CAP_S))
        if fault.loud:
            # Slow from the first time on: nothing that needs a person heals in a second.
            ceiling_s = min(cap_s, LOUD_BASE_S * 2.0 ** min(self.failures, 7))
        self.failures += 1
        told_s = min(fault.wait_s, TOLD_WAIT_S_MAX)
        if told_s > 0.0:
            # A hub that stops tells its whole fleet the same wait: the spread comes on top of it.
            spread_s = min(spread_s, REFUSED_CAP_S) if session_s is not None else 0.0
            return told_s + self._rng.uniform(0.0, max(TOLD_SPREAD_RATIO * told_s, spread_s))
        wait_s = self._rng.uniform(0.0, ceiling_s)
        return max(wait_s, ceiling_s / 2) if fault.loud else wait_s

    def reset(self) -> None:
        """Begin anew."""
        self.failures = 0
