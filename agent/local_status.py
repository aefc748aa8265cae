"""What the local view answers, as public JSON: long names, ages in place of times, fields only ever added. Pure."""

from msgspec import Struct, structs

from agent.outbox_bounds import Counts
from agent.reasons import PastReason
from agent.uplink import State, UplinkView
from wire.events import Stream

Reading = dict[str, object]
"""A struct of the wire by its long names: the short keys of the wire are no public interface."""


class ReasonView(Struct, frozen=True):
    """Why there was no session, last time; the code is a numbered reason of the wire where there is one."""

    code: int | None
    name: str
    detail: str


class HubView(Struct, frozen=True):
    """The way to the hub."""

    url: str
    state: State
    session: str | None
    hub_id: str | None
    last_ack_age_s: float | None
    last_reason: ReasonView | None
    attempts: int
    next_attempt_in_s: float | None
    clock_skew_ms: int | None
    insecure: bool
    reasons: list[PastReason] = []
    """The last ones, newest first, of earlier runs too."""


class StreamView(Struct, frozen=True):
    """One stream in the outbox. ``dropped`` and ``refused`` count since the agent started."""

    events: int
    bytes: int
    dropped: dict[str, int]
    """By reason: ``size``, ``age`` or ``damage``."""
    refused: int
    """Never stored, because the disk took nothing."""


class LocalStatus(Struct, frozen=True):
    """Everything ``/status`` answers."""

    agent_id: str | None
    name: str
    epoch: str
    pid: int
    version: str
    uptime_s: float
    healthy: bool
    hub: HubView
    host: object
    gpus: object
    gpu_problem: str
    workers: object
    jobs: object
    outbox: object
    observe: bool
    engines: object = ()
    streams: dict[str, StreamView] = {}
    logs: object = ()
    """Every log that is shipped: its source, state, and what is wrong with it."""


class Health(Struct, frozen=True):
    """What ``/healthz`` answers."""

    healthy: bool
    hub_state: State
    last_ack_age_s: float | None
    last_reason: ReasonView | None


def hub_view(view: UplinkView, *, now_s: float, insecure: bool) -> HubView:
    """The uplink's state, with ages in place of times."""
    fault = view.last_reason
    return HubView(
        url=view.url,
        state=view.state,
        session=view.session,
        hub_id=view.hub_id,
        last_ack_age_s=None if view.last_ack_s is None else round(max(0.0, now_s - view.last_ack_s), 3),
        last_reason=None if fault is None else ReasonView(code=fault.code, name=fault.name, detail=fault.detail),
        attempts=view.attempts,
        next_attempt_in_s=None if view.next_attempt_s is None else round(max(0.0, view.next_attempt_s - now_s), 1),
        clock_skew_ms=view.clock_skew_ms,
        insecure=insecure,
        reasons=view.reasons.newest_first(),
    )


def streams_view(counts: Counts) -> dict[str, StreamView]:
    """The outbox by stream."""
    return {
        stream.value: StreamView(
            events=held.events,
            bytes=held.bytes_,
            dropped={reason.value: count for (which, reason), count in counts.dropped.items() if which is stream},
            refused=counts.refused.get(stream, 0),
        )
        for stream, held in ((stream, counts.held[stream]) for stream in Stream)
    }


def by_name(value: object) -> object:
    """A reading, and whatever is inside it, by long names."""
    if isinstance(value, Struct):
        return {name.rstrip("_"): by_name(each) for name, each in structs.asdict(value).items()}
    if isinstance(value, list | tuple):
        return [by_name(each) for each in value]
    return value


def is_healthy(view: UplinkView, now_s: float) -> bool:
    """Whether the hub hears us: an open session and an acknowledgement not older than the hub's own patience."""
    return view.state is State.OPEN and view.last_ack_s is not None and now_s - view.last_ack_s < view.lost_after_s


def one_line(view: UplinkView, now_s: float) -> str:
    """The way to the hub for ``systemctl status``."""
    age = "never acknowledged"
    if view.last_ack_s is not None:
        age = f"last acknowledged {now_s - view.last_ack_s:.0f} s ago"
    reason = "" if view.last_reason is None or view.state is State.OPEN else f"; {view.last_reason.detail}"
    return f"hub {view.state.value}, {age}{reason}"
