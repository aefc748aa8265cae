"""What is wrong at a node that speaks, from its own word and from its way in: one rule for each kind of trouble; pure.

A rule takes the facts and gives the troubles it finds. What the node itself says of itself is certain as its word; what
the hub only infers is said to be likely.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec import UNSET, UnsetType

from hub.facts import Facts, Severity, Trouble, Why
from hub.ssh.cause import REMEDIES, Cause
from hub.ssh.charts import Finding
from hub.ssh.reach import State
from wire.engines import EngineState
from wire.readings import GpuReading, GpuState
from wire.status import NodeStatus, WorkerState
from wire.text import clipped

Item = TypeVar("Item")

CLONE_SHOWN_MS = 130_000
"""After it was last sent away: it knocks again within two minutes for as long as it is there."""
SKEW_MS = 30_000
DISK_BAD_SHARE = 0.02
DISK_WARN_SHARE = 0.05
INODES_MIN = 1000
PERCENT = 100.0
GIB = 1 << 30
NAMED_MAX = 4
CAUSE_CHARS_MAX = 512
"""Of a node's own words."""
AUTHENTICATION = frozenset({Cause.IDENTITY_REFUSED, Cause.NO_IDENTITY, Cause.TOO_MANY_FAILURES})
"""Refusals that a key of the hub's that was replaced may explain."""


class _Card:
    """What a state of a card means."""

    def __init__(self, words: str, severity: Severity, remedy: str) -> None:
        self.words = words
        self.severity = severity
        self.remedy = remedy


CARDS = {
    GpuState.LOST: _Card(
        "lost",
        Severity.BAD,
        "Reset it once nothing proves on the node (`nvidia-smi --gpu-reset -i INDEX`); if it stays away, reboot "
        "the node; if it is lost again, have it replaced.",
    ),
    GpuState.ABSENT: _Card(
        "not listed any more",
        Severity.BAD,
        "If it was taken out on purpose, restart the agent, which then forgets it; else reboot the node once nothing "
        "proves there.",
    ),
    GpuState.DRIVER_HUNG: _Card(
        "hung (NVML does not answer)",
        Severity.BAD,
        "Leave running proofs alone; drain the node, then reboot it: a driver that hangs in the kernel cannot be "
        "restarted. The agent asks it again by itself meanwhile.",
    ),
    GpuState.DRIVER_MISMATCH: _Card(
        "driver mismatch",
        Severity.BAD,
        "The driver was upgraded while its old kernel module is loaded: reboot the node once nothing proves there.",
    ),
    GpuState.DEGRADED: _Card(
        "degraded", Severity.WARN, "`provewire node NODE` lists its readings; its events say more."
    ),
}


def troubles(facts: Facts) -> list[Trouble]:
    """All that is known to be wrong but the silence of the node itself, in the order of the rules."""
    return [trouble for rule in RULES for trouble in rule(facts)]


def _given(items: Sequence[Item] | UnsetType) -> Sequence[Item]:
    return () if isinstance(items, UnsetType) else items


def _status(facts: Facts) -> NodeStatus | None:
    """Its word, while that is of now: an old one says nothing of what is wrong now."""
    return facts.status if facts.via_ssh_at_ms is not None else facts.said


def _double(facts: Facts) -> Iterator[Trouble]:
    if facts.double_at_ms is None or facts.now_ms - facts.double_at_ms > CLONE_SHOWN_MS:
        return
    yield Trouble(
        state="duplicate_identity",
        text="a copy of this node knocks with its key and is sent away",
        severity=Severity.WARN,
        cause=clipped(facts.double_detail, CAUSE_CHARS_MAX),
        remedy="Enrol the copy anew: at the copy, stop the agent, empty its data directory, and start it with a fresh "
        "token (`provewire enroll`). This node is left as it is.",
        since_ms=facts.since.get("duplicate_identity"),
    )


def _cards(facts: Facts) -> Iterator[Trouble]:
    status = _status(facts)
    if status is None:
        return
    cards = _given(status.gpus)
    for state, meaning in CARDS.items():
        found = [card for card in cards if card.state is state]
        if not found:
            continue
        slot = f"gpu_{state.value}"
        since_ms = facts.since.get(slot)
        since = "" if since_ms is None else f" since {facts.at(since_ms)}"
        whole = len(found) == len(cards) and state in {GpuState.DRIVER_HUNG, GpuState.DRIVER_MISMATCH}
        if whole and state is GpuState.DRIVER_HUNG:
            text = f"NVML hung: the driver of all {len(cards)} GPUs does not answer{since}"
        elif whole:
            text = f"driver mismatch: no GPU can be used{since}"
        else:
            text = f"{_named(found)} {meaning.words}{since}"
        yield Trouble(
            state=slot,
            text=text,
            severity=meaning.severity,
            cause=clipped(next((card.detail for card in found if card.detail), ""), CAUSE_CHARS_MAX),
            remedy=meaning.remedy.replace("NODE", facts.called).replace("INDEX", str(found[0].index)),
            since_ms=since_ms,
        )


def _named(cards: Sequence[GpuReading]) -> str:
    """``GPU 3``, ``GPUs 1, 3 and 4 more``."""
    names = [card.uuid if card.index is None else str(card.index) for card in cards[:NAMED_MAX]]
    more = f" and {len(cards) - NAMED_MAX} more" if len(cards) > NAMED_MAX else ""
    return f"GPU{'s' if len(cards) > 1 else ''} {', '.join(names)}{more}"


def _workers(facts: Facts) -> Iterator[Trouble]:
    status = _status(facts)
    if status is None:
        return
    workers = _given(status.workers)
    for state, words in ((WorkerState.DOWN, "down"), (WorkerState.SILENT, "does not answer")):
        found = [worker for worker in workers if worker.state is state]
        if not found:
            continue
        named = ", ".join(worker.device for worker in found[:NAMED_MAX])
        yield Trouble(
            state=f"worker_{state.value}",
            text=f"the worker of {named} {'is ' if state is WorkerState.DOWN else ''}{words}",
            severity=Severity.BAD if len(found) == len(workers) else Severity.WARN,
            cause=clipped(next((worker.detail for worker in found if worker.detail), ""), CAUSE_CHARS_MAX),
            remedy="The agent starts a worker that is down again by itself; what it logged: "
            f"`provewire logs {facts.called} --level warning`."
            if state is WorkerState.DOWN
            else "It may be in the middle of a long step, or its card hangs: look at the cards first; leave it alone "
            "while it proves.",
            since_ms=facts.since.get(f"worker_{state.value}"),
        )


def _on_host(facts: Facts) -> Iterator[Trouble]:
    """A worker that took the CPU because its card cannot be used: proofs come, and take many times as long."""
    status = _status(facts)
    if status is None:
        return
    workers = _given(status.workers)
    found = [worker for worker in workers if worker.on_host]
    if not found:
        return
    on_card = any(not worker.on_host and worker.state is not WorkerState.DOWN for worker in workers)
    process = "PID" if found[0].pid is None else found[0].pid
    since_ms = facts.since.get("worker_on_host")
    since = "" if since_ms is None else f" since {facts.at(since_ms)}"
    why = clipped(found[0].on_host, CAUSE_CHARS_MAX)
    yield Trouble(
        state="worker_on_host",
        text=f"the worker of {', '.join(worker.device for worker in found[:NAMED_MAX])} proves on the CPU instead of "
        f"its card{since}: {why}",
        severity=Severity.WARN if on_card else Severity.BAD,
        cause=why,
        remedy=f"Mend that at the node, then end the worker there (`kill {process}`): it finishes its proof first, and "
        "is started again on the card. Where the CPU is meant, start the agent with `--device host`.",
        since_ms=since_ms,
    )


ENGINES = {
    EngineState.DOWN: ("is down", Severity.BAD, "Start the daemon at the node."),
    EngineState.SILENT: (
        "does not answer",
        Severity.BAD,
        "Look at its process and its log; leave it alone while it proves.",
    ),
    EngineState.WRONG_SERVICE: (
        "is not what answers at its port",
        Severity.WARN,
        "Correct the agent's --cuzk address.",
    ),
    EngineState.BAD_ANSWER: ("answers what is no status", Severity.WARN, "Look at its log."),
    EngineState.STATUS_DISABLED: ("runs with its status switched off", Severity.INFO, "Switch its HTTP status on."),
}


def _engines(facts: Facts) -> Iterator[Trouble]:
    status = _status(facts)
    if status is None:
        return
    engines = _given(status.engines)
    for engine in engines:
        if engine.state is EngineState.OK:
            continue
        words, severity, remedy = ENGINES[engine.state]
        slot = f"engine_{engine.state.value}"
        since_ms = facts.since.get(f"{slot} {engine.engine}")
        since = "" if since_ms is None else f" since {facts.at(since_ms)}"
        yield Trouble(
            state=slot,
            key=engine.engine,
            text=f"{engine.engine}-daemon {words}{since}",
            severity=severity,
            cause=clipped(engine.detail, CAUSE_CHARS_MAX),
            remedy=remedy,
            since_ms=since_ms,
        )


def _disk(facts: Facts) -> Iterator[Trouble]:
    status = _status(facts)
    if status is None or status.host is UNSET:
        return
    host = status.host
    disks = (
        ("data", "the file system of its data directory", host.disk_total_bytes, host.disk_free_bytes),
        ("root", "its root file system", host.root_disk_total_bytes, host.root_disk_free_bytes),
    )
    said: tuple[int | None, int | None] | None = None
    for key, words, total, free in disks:
        if not total or free is None or free >= total * DISK_WARN_SHARE or (total, free) == said:
            continue
        said = (total, free)
        full = free < total * DISK_BAD_SHARE
        yield _disk_trouble(
            facts, key, full=full, cause=f"{words} has {free / total * PERCENT:.0f} % free ({_size(free)})"
        )
    if host.disk_inodes_free is not None and host.disk_inodes_free < INODES_MIN and said is None:
        yield _disk_trouble(
            facts,
            "inodes",
            full=True,
            cause=f"the file system of its data directory has {host.disk_inodes_free} inodes left",
        )


def _disk_trouble(facts: Facts, key: str, *, full: bool, cause: str) -> Trouble:
    state = "disk_full" if full else "disk_filling"
    return Trouble(
        state=state,
        key=key,
        text=f"disk {'full' if full else 'nearly full'}: {cause}",
        severity=Severity.BAD if full else Severity.WARN,
        cause=cause,
        remedy="Make room there (old logs, unused keys and parameters); the agent goes on by itself, no restart is "
        "needed. Nothing of a job's result is lost meanwhile.",
        since_ms=facts.since.get(f"{state} {key}"),
    )


def _size(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes / (1 << 20):.0f} MiB"


def _clock(facts: Facts) -> Iterator[Trouble]:
    skew_ms = facts.clock_skew_ms
    if not facts.heard or skew_ms is None or abs(skew_ms) <= SKEW_MS:
        return
    yield Trouble(
        state="clock_skewed",
        text=f"clock {abs(skew_ms) / 1000:.0f} s {'ahead of' if skew_ms > 0 else 'behind'} the hub's",
        severity=Severity.WARN,
        remedy="Set it by NTP. Nothing is ordered by it; times of its events are off by as much.",
        since_ms=facts.since.get("clock_skewed"),
    )


def _fallback(facts: Facts) -> Iterator[Trouble]:
    reach = facts.reach
    if reach.target is None or reach.state is not State.BROKEN:
        return
    why = fallback_cause(facts)
    yield Trouble(
        state="fallback_broken",
        text=f"fallback broken: {reach.why_broken}",
        severity=Severity.WARN,
        cause=why.cause,
        remedy=why.remedy,
        certain=why.certain,
        since_ms=reach.broken_since_ms,
    )


def fallback_cause(facts: Facts) -> Why:
    """Why the way in is broken, as far as that is known."""
    reach = facts.reach
    began_ms = reach.broken_since_ms or 0
    if reach.cause in AUTHENTICATION and facts.doctor is not None and facts.doctor.at_ms >= began_ms:
        return _charted(facts, facts.doctor)
    alike = next((one for one in facts.problems if one.cause is reach.cause and one.explains(began_ms)), None)
    if alike is not None:
        since = facts.at(alike.since_ms)
        return Why(cause=f"probably on this side: {alike.sentence}, since {since}", remedy=alike.remedy, certain=False)
    if reach.cause is Cause.HOST_KEY_CHANGED:
        return _another_host(facts)
    if reach.cause in AUTHENTICATION:
        return Why(
            cause="the node's sshd does not take the hub's key, and from here its reasons look alike: the key is "
            "missing there, stands on one line with another, or a mode or owner is wrong",
            remedy=f"`provewire ssh-key doctor {facts.called} --via-key KEY` says which, by any other key that gets "
            f"in; `provewire ssh-key install {facts.called} --via-key KEY --yes` mends it.",
            certain=False,
        )
    return Why(cause=reach.cause.value.replace("_", " "), remedy=REMEDIES[reach.cause], certain=True)


def _charted(facts: Facts, found: Finding) -> Why:
    """What the doctor saw at the node itself."""
    install = f"`provewire ssh-key install {facts.called} --via-key KEY --yes`"
    if not found.sure:
        return Why(
            cause=f"not known: {found.what}, looked at {facts.at(found.at_ms)}",
            remedy=f"What its sshd logs says why: `provewire ssh-key doctor {facts.called} --via-key KEY`.",
            certain=False,
        )
    by_hand = f"; by hand: {found.repair}" if found.repair else ""
    return Why(
        cause=f"{found.what}; the doctor looked at {facts.at(found.at_ms)}",
        remedy=f"{install} mends it and proves it by a login{by_hand}" if found.installer else found.repair,
        certain=True,
    )


def _another_host(facts: Facts) -> Why:
    """Another host key answers than the pinned one: whose?"""
    target, said = str(facts.reach.target), facts.reach.suggested
    anew = f"`provewire ssh-target set {facts.called} USER@HOST:PORT`"
    shown = f" ({facts.answers})" if facts.answers else ""
    if facts.answers_node:
        return Why(
            cause=f"{target} is another machine's now: {facts.answers} answers there, by its own pinned host key",
            remedy=f"Give this node its new address and port: {anew}.",
            certain=True,
        )
    if facts.heard and said is not None and set(said.host_keys) & set(facts.reach.host_keys):
        return Why(
            cause=f"another host answers at {target}: it shows another host key{shown}, while the node itself, over "
            "its session, still has the pinned one",
            remedy=f"Its address or port leads elsewhere now: {anew}. Do not pin the key that answers.",
            certain=True,
        )
    if facts.heard and facts.reach.host_keys_differ:
        return Why(
            cause="the node was made anew: over its own session it says other host keys than those pinned",
            remedy=f"`provewire ssh-target accept {facts.called} --host-keys` pins what the node says of itself.",
            certain=True,
        )
    return Why(
        cause=f"probably {target} was given to another host, or the node was made anew: another host key{shown} "
        "answers than the pinned one",
        remedy=f"Compare with the provider's console. Another port or address now: {anew}. The same machine made anew: "
        f"pin its new key (`provewire ssh-target pin {facts.called} --scan`).",
        certain=False,
    )


RULES: tuple[Callable[[Facts], Iterator[Trouble]], ...] = (
    _cards,
    _workers,
    _on_host,
    _engines,
    _disk,
    _double,
    _fallback,
    _clock,
)
"""In the order in which troubles of the same severity are said."""
