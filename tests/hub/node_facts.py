"""Facts of a node as tests want them, and a strategy for any that can be."""

from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET

from hub.facts import Facts
from hub.liveness import NodeState
from hub.ssh.cause import Cause
from hub.ssh.causes import Diagnosis
from hub.ssh.ladder import Rung, Step, way_in
from hub.ssh.ladder import State as RungState
from hub.ssh.looking import Ladder
from hub.ssh.reach import Reach, Source, State, Suggestion
from hub.ssh.targets import Target
from hub.ssh.verdict import Problem
from wire.engines import EngineJob, EngineJobState, EngineReading, EngineState
from wire.readings import GpuReading, GpuState, HostReading
from wire.reasons import Reason
from wire.status import NodeStatus, WorkerReading, WorkerState

NODE = "01890a5d-ac96-774b-bcce-b302099a0001"
OTHER = "01890a5d-ac96-774b-bcce-b302099a0002"
NOW_MS = 1_700_000_000_000
HEARD_MS = NOW_MS - 120_000
TARGET = Target("203.0.113.5", 22022, "root")
KEYS = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA",)
OTHER_KEYS = ("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBB",)
BEYOND = (Rung.PROVERS, Rung.AGENT, Rung.STATUS, Rung.GPUS, Rung.DISK, Rung.MEMORY, Rung.CLOCK)


def facts(**changes: Any) -> Facts:
    """A node that is heard and idle, unless ``changes`` say otherwise."""
    values: dict[str, Any] = {
        "id": NODE,
        "name": "gpu-07",
        "now_ms": NOW_MS,
        "state": NodeState.ONLINE,
        "created_at_ms": NOW_MS - 86_400_000,
        "last_heard_at_ms": NOW_MS if changes.get("state", NodeState.ONLINE) is NodeState.ONLINE else HEARD_MS,
        "status": NodeStatus(),
        "status_at_ms": NOW_MS,
        "reach": Reach(node_id=NODE),
    }
    return Facts(**(values | changes))


def way(cause: Cause = Cause.OK, evidence: str = "", **changes: Any) -> Reach:
    """A way in, broken by ``cause`` unless that is OK."""
    values: dict[str, Any] = {"node_id": NODE, "target": TARGET, "host_keys": KEYS, "pinned_by": Source.OPERATOR}
    if cause is Cause.OK:
        values |= {"state": State.PROVED, "proved_at_ms": HEARD_MS}
    else:
        values |= {
            "state": State.BROKEN,
            "cause": cause,
            "evidence": evidence,
            "broken_since_ms": HEARD_MS + 10_000,
            "tried_at_ms": HEARD_MS + 10_000,
        }
    return Reach(**(values | changes))


def looked(cause: Cause = Cause.OK, *, at_ms: int = NOW_MS - 10_000, **rungs: tuple[RungState, str]) -> Ladder:
    """A look: that far as the cause lets it come, and beyond that as ``rungs`` say."""
    reached = cause is Cause.OK
    steps = way_in(Diagnosis(cause, "", ""), reached_shell=reached)
    for rung in BEYOND:
        state, sentence = rungs.get(rung.value, (RungState.OK if reached else RungState.UNKNOWN, "as it should be"))
        steps.append(Step(rung, state, sentence))
    return Ladder(
        node_id=NODE, attempt=OTHER, at_ms=at_ms, duration_s=1.0, cause=cause, steps=tuple(steps), reached=reached
    )


CARDS = st.builds(
    GpuReading,
    uuid=st.sampled_from(["GPU-a", "GPU-b"]),
    index=st.none() | st.integers(0, 8),
    state=st.sampled_from(GpuState),
    detail=st.text(max_size=20),
)
WORKERS = st.builds(
    WorkerReading,
    device=st.just("host"),
    state=st.sampled_from(WorkerState),
    detail=st.text(max_size=20),
    on_host=st.just("") | st.text(max_size=20),
)
ENGINE_JOBS = st.builds(EngineJob, id=st.just("j"), kind=st.just("porep"), state=st.sampled_from(EngineJobState))
ENGINES = st.builds(
    EngineReading,
    engine=st.just("cuzk"),
    state=st.sampled_from(EngineState),
    detail=st.text(max_size=20),
    jobs=st.lists(ENGINE_JOBS, max_size=2).map(tuple),
)
HOSTS = st.builds(
    HostReading,
    disk_total_bytes=st.none() | st.integers(0, 100),
    disk_free_bytes=st.none() | st.integers(0, 100),
    root_disk_total_bytes=st.none() | st.integers(0, 100),
    root_disk_free_bytes=st.none() | st.integers(0, 100),
    disk_inodes_free=st.none() | st.integers(0, 10_000),
)
STATUSES = st.builds(
    NodeStatus,
    gpus=st.just(UNSET) | st.lists(CARDS, max_size=3),
    workers=st.just(UNSET) | st.lists(WORKERS, max_size=3),
    engines=st.just(UNSET) | st.lists(ENGINES, max_size=2),
    host=st.just(UNSET) | HOSTS,
    draining=st.just(UNSET) | st.booleans(),
)
"""What of a status the sentence is made from."""


@st.composite
def any_facts(draw: st.DrawFn) -> Facts:
    """Whatever the hub may know of a node."""
    cause = draw(st.sampled_from(Cause))
    times = st.integers(NOW_MS - 10**9, NOW_MS)
    maybe = st.none() | times
    rung = st.tuples(st.sampled_from(RungState), st.text(max_size=20))
    said = draw(
        st.none()
        | st.sampled_from([Suggestion(target=TARGET, host_keys=KEYS), Suggestion(target=TARGET, host_keys=OTHER_KEYS)])
    )
    ladder = st.builds(
        lambda cause, at_ms, rungs: looked(cause, at_ms=at_ms, **rungs),
        st.sampled_from([Cause.OK, cause]),
        times,
        st.dictionaries(st.sampled_from([rung.value for rung in BEYOND]), rung),
    )
    state = draw(st.sampled_from(NodeState))
    return facts(
        state=state,
        name=draw(st.text(min_size=1, max_size=20)),
        last_heard_at_ms=None if state is NodeState.NEVER else draw(times),
        reason_code=draw(st.none() | st.sampled_from([int(reason) for reason in Reason])),
        reason_at_ms=draw(maybe),
        status=draw(st.none() | STATUSES),
        status_at_ms=draw(times),
        session_opened_at_ms=draw(maybe),
        via_ssh_at_ms=draw(maybe),
        observes=draw(st.booleans()),
        clock_skew_ms=draw(st.none() | st.integers(-(10**6), 10**6)),
        reach=draw(st.sampled_from([Reach(node_id=NODE), way(), way(cause, "words", suggested=said)])),
        ladder=draw(st.none() | ladder),
        looking=draw(st.booleans()),
        next_look_s=draw(st.none() | st.floats(0, 2000)),
        paused=draw(st.sampled_from(["", "the hub has just started, or was late itself"])),
        heard_since_start=draw(st.booleans()),
        problems=tuple(
            draw(st.lists(st.builds(Problem, st.sampled_from(Cause), st.just("something"), times), max_size=2))
        ),
        answers=draw(st.sampled_from(["", "SHA256:abc", "the node b"])),
        answers_node=draw(st.booleans()),
        double_at_ms=draw(maybe),
        since=draw(st.dictionaries(st.sampled_from(["gpu_lost", "disk_full data", "worker_down"]), times)),
    )
