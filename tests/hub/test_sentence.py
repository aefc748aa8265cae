"""A node's sentence and lights: the worst first, never a guess as certain, and silence says nothing about provers."""

import msgspec
import pytest
from hypothesis import given

from hub.facts import Facts, Severity
from hub.liveness import NodeState
from hub.losses import loss
from hub.sentence import Heard, Proving, all_troubles, lights, sentence
from hub.ssh.cause import Cause
from hub.ssh.charts import Finding
from hub.ssh.ladder import State as RungState
from hub.ssh.reach import Suggestion
from hub.ssh.verdict import Problem
from tests.hub.node_facts import HEARD_MS, KEYS, NOW_MS, OTHER_KEYS, TARGET, any_facts, facts, looked, way
from tests.wire.strategies import patiently
from wire.engines import EngineJob, EngineReading, EngineState
from wire.readings import GpuReading, GpuState, HostReading
from wire.reasons import Reason
from wire.status import JobProgress, NodeStatus, WorkerReading, WorkerState

LOST = NodeState.LOST
PROVING = NodeStatus(
    workers=[WorkerReading(device="cuda:0", state=WorkerState.PROVING, pid=1)],
    jobs=[JobProgress(job="01890a5d-ac96-774b-bcce-b302099a0003", attempt=1, phase="msm")],
)
IDLE = NodeStatus(workers=[WorkerReading(device="cuda:0", state=WorkerState.IDLE, pid=1)])
DENIED = "root@203.0.113.5: Permission denied (publickey)."
LIKELY = ("probably", "not known", "reasons look alike")


def card(number: int, state: GpuState = GpuState.OK, detail: str = "") -> GpuReading:
    return GpuReading(uuid=f"GPU-{number}", index=number, state=state, detail=detail)


# --- laws


@given(any_facts())
@patiently(150)
def test_what_is_not_certain_says_so_and_what_is_wrong_says_what_to_do(known: Facts) -> None:
    said = sentence(known)
    assert said.text
    assert said.certain or any(word in f"{said.cause} {said.text}" for word in LIKELY), said
    if said.certain:
        assert "probably" not in said.cause.split(";")[0]
    if said.severity > Severity.INFO:
        assert said.remedy, said
    for trouble in all_troubles(known):
        assert trouble.certain or any(word in trouble.cause for word in LIKELY), trouble


@given(any_facts())
@patiently(150)
def test_the_worst_comes_first(known: Facts) -> None:
    troubles = all_troubles(known)
    assert [one.severity for one in troubles] == sorted((one.severity for one in troubles), reverse=True)
    said = sentence(known)
    assert said.severity == max((one.severity for one in troubles), default=Severity.OK)
    if troubles and troubles[0].severity > Severity.INFO:
        assert said.text.startswith(troubles[0].text[:40])


@given(any_facts())
@patiently(150)
def test_silence_never_colours_the_second_light(known: Facts) -> None:
    """A node that falls silent: its second light says what was last known and when, and is otherwise unknown."""
    spoke = msgspec.structs.replace(
        known, state=NodeState.ONLINE, last_heard_at_ms=HEARD_MS, status_at_ms=HEARD_MS, via_ssh_at_ms=None, ladder=None
    )
    before = lights(spoke).proving
    for state in (NodeState.STALE, NodeState.RECONNECTING, NodeState.LOST):
        after = lights(msgspec.structs.replace(spoke, state=state)).proving
        assert after.state is Proving.UNKNOWN
        assert after.last is before.last
        assert after.at_ms == before.at_ms


@given(any_facts())
@patiently(150)
def test_only_a_look_newer_than_the_last_word_says_that_nothing_proves(known: Facts) -> None:
    light = lights(known).proving
    if known.state is not NodeState.ONLINE and known.via_ssh_at_ms is None and light.state is Proving.UNABLE:
        assert known.ladder is not None
        assert known.ladder.at_ms > (known.last_heard_at_ms or 0)


# --- what a node that speaks says


def test_a_node_that_is_well() -> None:
    said = sentence(facts(status=PROVING))
    assert (said.text, said.state, said.severity, said.certain) == ("proving 1 job", "proving", Severity.OK, True)
    assert sentence(facts(status=IDLE)).text == "idle"
    draining = msgspec.structs.replace(IDLE, draining=True)
    assert sentence(facts(status=draining)).text == "draining"


def test_what_it_said_before_it_came_back_is_not_said_of_now() -> None:
    down = NodeStatus(engines=[EngineReading(engine="cuzk", state=EngineState.DOWN)])
    known = facts(status=down, status_at_ms=HEARD_MS, session_opened_at_ms=NOW_MS)
    assert sentence(known).text == "connected, nothing said yet"
    light = lights(known).proving
    assert (light.state, light.last) == (Proving.UNKNOWN, Proving.UNABLE)
    assert sentence(msgspec.structs.replace(known, status_at_ms=NOW_MS)).state == "engine_down"


def test_the_worst_then_what_it_does_then_the_rest() -> None:
    status = msgspec.structs.replace(PROVING, gpus=[card(3, GpuState.LOST, "it fell off the bus"), card(4)])
    known = facts(status=status, reach=way(Cause.IDENTITY_REFUSED, DENIED), since={"gpu_lost": NOW_MS - 3_600_000})
    said = sentence(known)
    assert said.text == (
        f"GPU 3 lost since {known.at(NOW_MS - 3_600_000)}; fallback broken: Permission denied (publickey); "
        "proving 1 job"
    )
    assert (said.state, said.cause, said.severity) == ("gpu_lost", "it fell off the bus", Severity.BAD)
    assert "nvidia-smi --gpu-reset -i 3" in said.remedy


def test_a_driver_that_hangs_is_no_single_card() -> None:
    status = NodeStatus(gpus=[card(0, GpuState.DRIVER_HUNG, "NVML did not answer"), card(1, GpuState.DRIVER_HUNG)])
    said = sentence(facts(status=status))
    assert said.text.startswith("NVML hung: the driver of all 2 GPUs does not answer")
    assert "reboot" in said.remedy


def test_a_worker_on_the_cpu_in_place_of_its_card_says_why_and_what_to_do() -> None:
    fallen = WorkerReading(device="cuda:0", state=WorkerState.IDLE, pid=47, on_host="the package pycuda is missing")
    down = WorkerReading(device="cuda:1", state=WorkerState.DOWN)
    said = sentence(facts(status=NodeStatus(workers=[fallen, down]), since={"worker_on_host": NOW_MS}))
    assert said.state == "worker_on_host"
    assert said.text.startswith("the worker of cuda:0 proves on the CPU instead of its card since ")
    assert (said.severity, said.cause, said.since_ms) == (Severity.BAD, "the package pycuda is missing", NOW_MS)
    assert "`kill 47`" in said.remedy
    assert "`--device host`" in said.remedy
    assert lights(facts(status=NodeStatus(workers=[fallen]))).proving.state is Proving.IDLE, "it does prove"
    beside = NodeStatus(workers=[fallen, WorkerReading(device="cuda:1", state=WorkerState.PROVING, pid=48)])
    assert sentence(facts(status=beside)).severity is Severity.WARN, "another card proves"


def test_a_machine_without_a_card_proves_on_its_cpu_and_nothing_is_wrong() -> None:
    host = NodeStatus(workers=[WorkerReading(device="host", state=WorkerState.IDLE, pid=1)])
    assert sentence(facts(status=host)).severity is Severity.OK


def test_an_engine_that_is_down_and_what_it_last_said_is_not_now() -> None:
    job = EngineJob(id="j", kind="porep")
    down = EngineReading(engine="cuzk", state=EngineState.DOWN, detail="start cuzk-daemon", jobs=(job,))
    known = facts(status=NodeStatus(engines=[down]), observes=True)
    assert sentence(known).state == "engine_down"
    assert lights(known).proving.state is Proving.UNABLE
    assert sentence(facts(observes=True)).text == "only watched"
    up = msgspec.structs.replace(down, state=EngineState.OK)
    assert sentence(facts(status=NodeStatus(engines=[up]), observes=True)).text == "proving 1 job"


@pytest.mark.parametrize(("free", "state"), [(1, "disk_full"), (40, "disk_filling"), (500, "idle")])
def test_a_disk(free: int, state: str) -> None:
    host = HostReading(disk_total_bytes=1000 << 30, disk_free_bytes=free << 30)
    assert sentence(facts(status=msgspec.structs.replace(IDLE, host=host))).state == state


def test_a_copy_is_told_for_a_while() -> None:
    known = facts(status=IDLE, double_at_ms=NOW_MS - 60_000, double_detail="from 198.51.100.7")
    assert sentence(known).state == "duplicate_identity"
    assert "Enrol the copy anew" in sentence(known).remedy
    assert sentence(msgspec.structs.replace(known, now_ms=NOW_MS + 600_000)).state == "idle"


def test_a_name_that_would_run_something_stands_in_no_command() -> None:
    known = facts(
        name="a; rm -rf /", state=LOST, reach=way(), ladder=looked(agent=(RungState.FAILED, "it does not run"))
    )
    assert "rm -rf" not in sentence(known).remedy
    assert f"provewire recover {known.id} restart-agent" in sentence(known).remedy


# --- why one is not heard


def test_before_anybody_looked_the_cause_is_not_known() -> None:
    without = sentence(facts(state=LOST))
    assert without.cause == "cause not known: there is no way in by ssh to look"
    assert "ssh-target set gpu-07" in without.remedy
    looking = sentence(facts(state=LOST, reach=way(), looking=True))
    assert "cause not known yet, looking by ssh now" in looking.text
    assert not looking.certain


def test_a_look_before_its_last_word_explains_nothing() -> None:
    old = looked(at_ms=HEARD_MS - 1, agent=(RungState.FAILED, "it does not run"))
    assert sentence(facts(state=LOST, reach=way(), ladder=old)).state == "lost"


def test_an_agent_that_does_not_run_was_seen() -> None:
    ladder = looked(agent=(RungState.FAILED, "it does not run, and nothing supervises it"))
    said = sentence(facts(state=LOST, reach=way(), ladder=ladder, status=PROVING))
    assert (said.state, said.certain, said.severity) == ("agent_dead", True, Severity.BAD)
    assert said.cause.startswith("the agent does not run (nothing supervises it); provers are alive")
    assert said.text.startswith("lost, last heard ")
    assert "provers are alive" in said.text
    assert "`provewire recover gpu-07 restart-agent --yes`" in said.remedy


def test_an_agent_that_answers_at_home_is_probably_cut_off() -> None:
    said = sentence(facts(state=LOST, reach=way(), ladder=looked()))
    assert (said.state, said.certain) == ("cut_off", False)
    assert "probably it does not reach the hub" in said.cause


def test_want_of_disk_is_only_probable_and_made_good_first() -> None:
    ladder = looked(agent=(RungState.FAILED, "it does not run"), disk=(RungState.WARNING, "0 % free on /data"))
    said = sentence(facts(state=LOST, reach=way(), ladder=ladder))
    assert "probably for want of disk: 0 % free on /data" in said.cause
    assert said.remedy.startswith("Make room")


@pytest.mark.parametrize("cause", [Cause.CONNECT_TIMED_OUT, Cause.NO_ROUTE, Cause.REFUSED])
def test_a_machine_that_does_not_answer_is_probably_gone(cause: Cause) -> None:
    said = sentence(facts(state=LOST, reach=way(cause), ladder=looked(cause)))
    assert (said.state, said.certain) == ("node_gone", False)
    assert said.cause.startswith("probably the machine ")
    assert "fallback broken" not in said.text, "said once"


def test_where_nobody_is_let_in_the_cause_stays_unknown() -> None:
    known = facts(state=LOST, reach=way(Cause.IDENTITY_REFUSED, DENIED), ladder=looked(Cause.IDENTITY_REFUSED))
    said = sentence(known)
    assert "cause not known: ssh does not let the hub in to look, rung 4 of 12 (login)" in said.cause
    assert "ssh-key doctor" in said.remedy
    replaced = Problem(Cause.IDENTITY_REFUSED, "the hub's key was replaced: SHA256:a before, SHA256:b now", HEARD_MS)
    over = msgspec.structs.replace(replaced, over_ms=HEARD_MS)
    assert "replaced" not in sentence(msgspec.structs.replace(known, problems=(over,))).cause, "it broke after that"
    ours = sentence(msgspec.structs.replace(known, problems=(replaced,)))
    assert "the hub's key was replaced" in ours.cause
    assert ours.remedy == replaced.remedy
    assert not ours.certain


def test_what_the_doctor_saw_is_certain_while_the_way_is_broken_as_then() -> None:
    broken = way(Cause.IDENTITY_REFUSED, DENIED)
    assert broken.broken_since_ms is not None
    fused = Finding(at_ms=broken.broken_since_ms + 1, what="two keys stand on this line", repair="edit", installer=True)
    said = sentence(facts(status=IDLE, reach=broken, doctor=fused))
    assert (said.state, said.certain) == ("fallback_broken", True)
    assert said.cause.startswith("two keys stand on this line; the doctor looked at ")
    assert said.remedy.startswith("`provewire ssh-key install gpu-07 --via-key KEY --yes`")
    old = msgspec.structs.replace(fused, at_ms=broken.broken_since_ms - 1)
    assert not sentence(facts(status=IDLE, reach=broken, doctor=old)).certain
    nothing = Finding(at_ms=NOW_MS, what="nothing", repair="", sure=False)
    assert not sentence(facts(status=IDLE, reach=broken, doctor=nothing)).certain


def test_another_hosts_key() -> None:
    broken = way(Cause.HOST_KEY_CHANGED)
    lost = facts(state=LOST, reach=broken, ladder=looked(Cause.HOST_KEY_CHANGED), answers="SHA256:abc")
    assert (sentence(lost).state, sentence(lost).certain) == ("port_reused", False)
    assert "SHA256:abc" in sentence(lost).cause
    known = msgspec.structs.replace(lost, answers="the node gpu-09", answers_node=True)
    assert sentence(known).certain
    assert "the node gpu-09 answers there" in sentence(known).cause
    same = facts(reach=way(Cause.HOST_KEY_CHANGED, suggested=Suggestion(target=TARGET, host_keys=KEYS)))
    assert "Do not pin the key that answers" in sentence(same).remedy
    anew = facts(reach=way(Cause.HOST_KEY_CHANGED, suggested=Suggestion(target=TARGET, host_keys=OTHER_KEYS)))
    assert sentence(anew).remedy.startswith("`provewire ssh-target accept gpu-07 --host-keys`")


def test_a_hub_that_is_older_than_its_nodes_have_seen() -> None:
    known = facts(
        state=NodeState.RECONNECTING,
        reason_code=int(Reason.GENERATION_WENT_BACK),
        reason_detail="the hub's generation is 2; 5 was seen",
        reason_at_ms=NOW_MS - 1000,
        status=PROVING,
    )
    said = sentence(known)
    assert (said.state, said.certain, said.severity) == ("hub_is_older", True, Severity.BAD)
    assert said.text.startswith("refuses this hub since ")
    shown = lights(known)
    assert (shown.heard.state, shown.proving.state, shown.proving.last) == (
        Heard.REFUSED,
        Proving.UNKNOWN,
        Proving.PROVING,
    )


def test_one_that_was_stopped_on_purpose() -> None:
    known = facts(state=LOST, reason_code=int(Reason.GOODBYE), reason_at_ms=HEARD_MS)
    assert (sentence(known).state, sentence(known).severity) == ("stopped", Severity.WARN)
    later = msgspec.structs.replace(known, last_heard_at_ms=HEARD_MS + 1)
    assert sentence(later).state == "lost", "it was back since"


def test_after_a_restart_of_the_hub_nobody_is_missed_yet() -> None:
    said = sentence(facts(state=NodeState.RECONNECTING, heard_since_start=False))
    assert (said.state, said.severity) == ("awaited", Severity.INFO)
    assert loss(facts()) is None


def test_the_second_light_after_a_look() -> None:
    alive = facts(state=LOST, status=PROVING, reach=way(), ladder=looked(provers=(RungState.OK, "alive: 1 worker")))
    light = lights(alive).proving
    assert (light.state, light.last, light.at_ms) == (Proving.UNKNOWN, Proving.PROVING, HEARD_MS)
    assert light.text.endswith("by ssh: alive: 1 worker")
    dead = facts(state=LOST, status=PROVING, reach=way(), ladder=looked(provers=(RungState.FAILED, "none runs")))
    assert lights(dead).proving.state is Proving.UNABLE
    signed = facts(state=LOST, status=PROVING, reach=way(), via_ssh_at_ms=NOW_MS - 5000)
    assert lights(signed).proving.state is Proving.PROVING
