"""From the node's name to its provers, rung by rung: what works, what does not, in one sentence each; pure.

The rungs that are not reached are said to be unknown, never failed. Whether provers are alive stands before everything
about the agent: it decides what may be done, and a dead agent says nothing about it.
"""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum

from msgspec import Struct

from hub.ssh.cause import Cause
from hub.ssh.causes import Diagnosis

DISK_FREE_SHARE_MIN = 0.05
MEMORY_FREE_SHARE_MIN = 0.03
CLOCK_SKEW_MAX_S = 30
PERCENT = 100.0
STATUS_PREFIX = "pws1."
"""Begins the signed status that ``provewire status --frame`` prints."""
NO_COMMAND = "there is no provewire in "
"""What the script of `hub.ssh.scripts` says then: nobody was asked, so that the agent is not to blame."""


class Rung(StrEnum):
    """In the order in which they are climbed."""

    NAME = "name"
    TCP = "tcp"
    BANNER = "banner"
    LOGIN = "login"
    SHELL = "shell"
    PROVERS = "provers"
    AGENT = "agent"
    STATUS = "status"
    GPUS = "gpus"
    DISK = "disk"
    MEMORY = "memory"
    CLOCK = "clock"


class State(StrEnum):
    """How a rung is."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Not reached, or the node has nothing to say about it."""


class Step(Struct, frozen=True):
    """One rung."""

    rung: Rung
    state: State
    sentence: str
    detail: str = ""
    """What was printed, for whoever wants to see it."""


NETWORK = {
    Cause.NAME_RESOLUTION: Rung.NAME,
    Cause.REFUSED: Rung.TCP,
    Cause.CONNECT_TIMED_OUT: Rung.TCP,
    Cause.NO_ROUTE: Rung.TCP,
    Cause.NETWORK_UNREACHABLE: Rung.TCP,
    Cause.FIREWALL_REJECT: Rung.TCP,
    Cause.CLOSED_BEFORE_BANNER: Rung.BANNER,
    Cause.RESET_BEFORE_BANNER: Rung.BANNER,
    Cause.BANNER_TIMED_OUT: Rung.BANNER,
    Cause.NOT_SSH: Rung.BANNER,
    Cause.OLD_PROTOCOL: Rung.BANNER,
    Cause.LOST_BEFORE_SHELL: Rung.BANNER,
}
"""The rung that a cause breaks; every other failure before the shell breaks the login."""
SHELL = frozenset(
    {
        Cause.LOGIN_FORBIDDEN,
        Cause.SESSION_REFUSED,
        Cause.OUTPUT_CUT,
        Cause.REMOTE_KILLED,
        Cause.CONNECTION_LOST,
        Cause.DEADLINE,
    }
)
OURS = frozenset({Cause.SSH_MISSING, Cause.NO_USER, Cause.SSH_KILLED, Cause.OUT_OF_DESCRIPTORS, Cause.UNRECOGNISED})
"""They say nothing about how far the way goes."""


def way_in(diagnosis: Diagnosis, *, reached_shell: bool) -> list[Step]:
    """The rungs up to the shell, from how the attempt ended."""
    order = [Rung.NAME, Rung.TCP, Rung.BANNER, Rung.LOGIN, Rung.SHELL]
    if reached_shell:
        return [Step(rung, State.OK, _GOOD[rung]) for rung in order]
    if diagnosis.cause in OURS:
        return [Step(Rung.NAME, State.UNKNOWN, diagnosis.remedy, diagnosis.evidence), *_unknown(order[1:])]
    broken = NETWORK.get(diagnosis.cause, Rung.SHELL if diagnosis.cause in SHELL else Rung.LOGIN)
    at = order.index(broken)
    done = [Step(rung, State.OK, _GOOD[rung]) for rung in order[:at]]
    failed = Step(
        broken, State.FAILED, f"{diagnosis.cause.value.replace('_', ' ')}: {diagnosis.remedy}", diagnosis.evidence
    )
    return [*done, failed, *_unknown(order[at + 1 :])]


_GOOD = {
    Rung.NAME: "the name is an address",
    Rung.TCP: "the port answers",
    Rung.BANNER: "an sshd answers",
    Rung.LOGIN: "the hub's key is taken",
    Rung.SHELL: "a shell runs commands",
}
_BEYOND = (Rung.PROVERS, Rung.AGENT, Rung.STATUS, Rung.GPUS, Rung.DISK, Rung.MEMORY, Rung.CLOCK)


def _unknown(rungs: Sequence[Rung]) -> list[Step]:
    return [Step(rung, State.UNKNOWN, "not reached") for rung in rungs]


def beyond(found: dict[str, str] | None, now_s: float, *, whole: bool = True) -> list[Step]:
    """The rungs behind the shell, from the sections `hub.ssh.scripts.LOOK` printed; None: there was no shell.

    With ``whole`` false the script was cut off: of what it had not begun yet, and of the section it was in, nothing is
    known.
    """
    if found is None:
        return _unknown(_BEYOND)
    steps: dict[Rung, Callable[[], Step]] = {
        Rung.PROVERS: lambda: _provers(found),
        Rung.AGENT: lambda: _agent(found),
        Rung.STATUS: lambda: _status(found),
        Rung.GPUS: lambda: _gpus(found.get("gpus", "")),
        Rung.DISK: lambda: _disk(found.get("disk", "")),
        Rung.MEMORY: lambda: _memory(found.get("memory", ""), found.get("kernel", "")),
        Rung.CLOCK: lambda: _clock(found.get("clock", ""), now_s),
    }
    done = found if whole else dict(list(found.items())[:-1])
    return [
        step() if whole or _NEEDS[rung] <= done.keys() else Step(rung, State.UNKNOWN, "the look was cut off before")
        for rung, step in steps.items()
    ]


_NEEDS = {
    Rung.PROVERS: {"processes"},
    Rung.AGENT: {"processes", "unit"},
    Rung.STATUS: {"frame"},
    Rung.GPUS: {"gpus"},
    Rung.DISK: {"disk"},
    Rung.MEMORY: {"memory"},
    Rung.CLOCK: {"clock"},
}
"""The sections that each rung is read from."""


def _processes(found: dict[str, str], kind: str) -> list[str]:
    """Lines ``pid state kind command`` of one kind."""
    return [line for line in found.get("processes", "").splitlines() if line.split()[2:3] == [kind]]


def _provers(found: dict[str, str]) -> Step:
    workers, cuzk = _processes(found, "worker"), _processes(found, "cuzk")
    on_cards = [line for line in found.get("gpu_processes", "").splitlines() if re.match(r"GPU-\S+, *\d+,", line)]
    detail = "\n".join([*workers, *cuzk, *on_cards])
    if not workers and not cuzk and not on_cards:
        return Step(Rung.PROVERS, State.FAILED, "no worker, no cuzk-daemon and nothing on a card runs")
    stuck = [line for line in (*workers, *cuzk) if line.split()[1:2] == ["D"]]
    parts = [_counted(workers, "worker", "workers"), "a cuzk-daemon" if cuzk else ""]
    if on_cards:
        parts.append(_counted(on_cards, "process on a card", "processes on cards"))
    sentence = f"alive: {', '.join(part for part in parts if part)}; leave them alone"
    if stuck:
        return Step(Rung.PROVERS, State.WARNING, f"{sentence}; {len(stuck)} wait in the kernel (state D)", detail)
    return Step(Rung.PROVERS, State.OK, sentence, detail)


def _counted(lines: Sequence[str], one: str, many: str) -> str:
    """How many; empty for none."""
    return "" if not lines else f"1 {one}" if len(lines) == 1 else f"{len(lines)} {many}"


def _agent(found: dict[str, str]) -> Step:
    agents = _processes(found, "agent")
    unit = dict(line.split("=", 1) for line in found.get("unit", "").splitlines() if "=" in line)
    log = found.get("log", "")
    if unit.get("LoadState") == "loaded":
        state = f"{unit.get('ActiveState', '?')} ({unit.get('SubState', '?')})"
        if unit.get("ActiveState") == "active":
            return Step(Rung.AGENT, State.OK, f"its unit is {state}: {unit.get('StatusText', '')}".rstrip(": "), log)
        result = f", result {unit['Result']}" if unit.get("Result", "success") != "success" else ""
        return Step(Rung.AGENT, State.FAILED, f"its unit is {state}{result}: restart it", log)
    if agents:
        return Step(Rung.AGENT, State.OK, f"it runs as process {agents[0].split()[0]}, without systemd", log)
    how = "its supervisor runs and starts it again" if _processes(found, "supervise") else "nothing supervises it"
    return Step(Rung.AGENT, State.FAILED, f"it does not run, and {how}", log)


def _status(found: dict[str, str]) -> Step:
    frame = found.get("frame")
    if frame is None:
        return Step(Rung.STATUS, State.UNKNOWN, "not asked")
    if any(line.startswith(STATUS_PREFIX) for line in frame.splitlines()):
        return Step(Rung.STATUS, State.OK, "the agent answers on the node with a signed status")
    if frame.startswith(NO_COMMAND):
        return Step(Rung.STATUS, State.UNKNOWN, f"not asked: {frame.splitlines()[0]}", frame)
    return Step(Rung.STATUS, State.FAILED, "the agent gives no status on its own node", frame)


def _gpus(text: str) -> Step:
    cards = [line for line in text.splitlines() if line.startswith("GPU-")]
    if cards:
        return Step(Rung.GPUS, State.OK, f"{len(cards)} cards answer", text)
    if not text:
        return Step(Rung.GPUS, State.UNKNOWN, "there is no nvidia-smi")
    return Step(Rung.GPUS, State.FAILED, text.splitlines()[0], text)


def _disk(text: str) -> Step:
    worst: tuple[float, str] | None = None
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 6 and words[1].isdigit() and words[3].isdigit() and int(words[1]):  # noqa: PLR2004 - columns of df -P
            free = int(words[3]) / int(words[1])
            worst = min(worst, (free, words[5])) if worst else (free, words[5])
    if worst is None:
        return Step(Rung.DISK, State.UNKNOWN, "df said nothing", text)
    sentence = f"{worst[0] * PERCENT:.0f} % free on {worst[1]}"
    return Step(Rung.DISK, State.WARNING if worst[0] < DISK_FREE_SHARE_MIN else State.OK, sentence, text)


def _memory(text: str, kernel: str) -> Step:
    sizes = {name: int(kib) for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    total, free = sizes.get("MemTotal", 0), sizes.get("MemAvailable", 0)
    if not total:
        return Step(Rung.MEMORY, State.UNKNOWN, "/proc/meminfo said nothing", text)
    killed = "Out of memory" in kernel
    sentence = f"{free / total * PERCENT:.0f} % available" + (
        "; the kernel has killed for want of memory" if killed else ""
    )
    short = killed or free / total < MEMORY_FREE_SHARE_MIN
    return Step(Rung.MEMORY, State.WARNING if short else State.OK, sentence, f"{text}\n{kernel}".strip())


def _clock(text: str, now_s: float) -> Step:
    if not text.isdigit():
        return Step(Rung.CLOCK, State.UNKNOWN, "date said nothing", text)
    skew_s = round(int(text) - now_s)
    if abs(skew_s) > CLOCK_SKEW_MAX_S:
        return Step(
            Rung.CLOCK, State.WARNING, f"{abs(skew_s)} s {'ahead of' if skew_s > 0 else 'behind'} the hub's clock"
        )
    return Step(Rung.CLOCK, State.OK, "right to a few seconds")


def summary(steps: Sequence[Step]) -> str:
    """One sentence: the first rung that fails, and whether provers live."""
    failed = next((step for step in steps if step.state is State.FAILED), None)
    provers = next((step for step in steps if step.rung is Rung.PROVERS), None)
    if failed is None:
        return "the node answers on every rung"
    alive = provers is not None and provers.state in {State.OK, State.WARNING}
    return f"{failed.rung.value}: {failed.sentence}" + ("; provers are alive" if alive else "")
