"""What each rung says, from recorded output of nodes with and without systemd."""

import pytest

from hub.ssh.cause import Cause
from hub.ssh.causes import SSH_FAILED, Ending, diagnose
from hub.ssh.ladder import Rung, State, Step, beyond, summary, way_in
from tests.hub.ssh.corpus import CORPUS

NOW_S = 1_764_000_000.0
SYSTEMD = {
    "system": "Linux 6.8.0\ngpu-7\nsystemd",
    "processes": (
        "812 S agent /opt/provewire/bin/python -m provewire agent --data-dir /var/lib/provewire/agent\n"
        "815 R worker /opt/provewire/bin/python /usr/bin/provewire worker --device cuda:0"
    ),
    "gpu_processes": "GPU-5d1f, 815, 4096, python",
    "gpus": "GPU-5d1f, NVIDIA H200, 97, 81559, 143771, 71",
    "unit": "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nStatusText=hub open",
    "log": "2026-11-30T02:58:00 agent.started",
    "disk": (
        "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
        "/dev/sda1 100 50 50 50% /\n/dev/sdb 1000 10 990 1% /data"
    ),
    "memory": "MemTotal:       1000 kB\nMemAvailable:    500 kB\nmax\n1",
    "kernel": "",
    "clock": "1764000003",
    "frame": "pws1.AAAA",
}


def states(steps: list[Step]) -> dict[Rung, State]:
    return {step.rung: step.state for step in steps}


def test_a_node_that_is_well() -> None:
    steps = [*way_in(diagnose(Ending(remote_exit_code=0, began=True)), reached_shell=True), *beyond(SYSTEMD, NOW_S)]
    assert set(states(steps).values()) == {State.OK}
    assert [step.rung for step in steps] == list(Rung)
    assert summary(steps) == "the node answers on every rung"


@pytest.mark.parametrize(("cause", "said"), CORPUS, ids=[f"{n}-{cause.value}" for n, (cause, _) in enumerate(CORPUS)])
def test_each_cause_breaks_one_rung_and_what_is_behind_is_unknown(cause: Cause, said: str) -> None:
    steps = [*way_in(diagnose(Ending(stderr=said, exit_code=SSH_FAILED)), reached_shell=False), *beyond(None, NOW_S)]
    assert [step.rung for step in steps] == list(Rung)
    order = [step.state for step in steps]
    if cause in {Cause.UNRECOGNISED, Cause.OUT_OF_DESCRIPTORS, Cause.NO_USER}:
        assert set(order) == {State.UNKNOWN}
        return
    at = order.index(State.FAILED)
    assert set(order[:at]) <= {State.OK}
    assert set(order[at + 1 :]) == {State.UNKNOWN}
    assert steps[at].detail


def changed(**sections: str) -> dict[Rung, Step]:
    return {step.rung: step for step in beyond({**SYSTEMD, **sections}, NOW_S)}


def test_a_dead_agent_beside_living_provers() -> None:
    only_worker = SYSTEMD["processes"].splitlines()[1]
    found = changed(
        processes=only_worker,
        unit="LoadState=loaded\nActiveState=failed\nSubState=failed\nResult=exit-code",
        frame="provewire: no agent answers",
    )
    assert found[Rung.PROVERS].state is State.OK
    assert "leave them alone" in found[Rung.PROVERS].sentence
    assert found[Rung.AGENT].state is State.FAILED
    assert "result exit-code" in found[Rung.AGENT].sentence
    assert found[Rung.STATUS].state is State.FAILED
    assert summary(list(found.values())).endswith("provers are alive")


def test_a_container_without_systemd() -> None:
    assert changed(unit="", frame="pws1.A")[Rung.AGENT].sentence == "it runs as process 812, without systemd"
    gone = changed(unit="", processes="9 S supervise /usr/bin/provewire supervise -- agent")[Rung.AGENT]
    assert (gone.state, "its supervisor runs" in gone.sentence) == (State.FAILED, True)
    nothing = changed(unit="", processes="", gpu_processes="")
    assert nothing[Rung.AGENT].sentence == "it does not run, and nothing supervises it"
    assert nothing[Rung.PROVERS].state is State.FAILED


def test_a_cuzk_daemon_and_foreign_processes_on_cards_are_provers() -> None:
    found = changed(processes="77 S cuzk /usr/local/bin/cuzk-daemon -c /data/zk/cuzk.toml", gpu_processes="")
    assert found[Rung.PROVERS].sentence == "alive: a cuzk-daemon; leave them alone"
    found = changed(processes="", gpu_processes="GPU-5d1f, 4242, 100, other")
    assert "1 process on a card" in found[Rung.PROVERS].sentence


def test_a_worker_that_waits_in_the_kernel_is_shown() -> None:
    assert changed(processes="815 D worker provewire worker --device cuda:0")[Rung.PROVERS].state is State.WARNING


def test_warnings_of_the_machine() -> None:
    full = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/sda1 1000 990 10 99% /"
    assert changed(disk=full)[Rung.DISK].sentence == "1 % free on /"
    assert changed(disk=full)[Rung.DISK].state is State.WARNING
    assert changed(kernel="Out of memory: Killed process 1")[Rung.MEMORY].state is State.WARNING
    assert changed(memory="MemTotal: 1000 kB\nMemAvailable: 10 kB")[Rung.MEMORY].state is State.WARNING
    assert changed(clock="1764003600")[Rung.CLOCK].sentence == "3600 s ahead of the hub's clock"
    assert changed(gpus="Failed to initialize NVML: Driver/library version mismatch")[Rung.GPUS].state is State.FAILED
    assert changed(gpus="")[Rung.GPUS].state is State.UNKNOWN


def test_garbage_in_every_section_is_no_fault_of_ours() -> None:
    garbage = "\x00\xff = a b c d e f\n1 2 3\n" * 3
    steps = beyond(dict.fromkeys(SYSTEMD, garbage), NOW_S)
    assert len(steps) == 7


def test_of_a_look_that_was_cut_off_only_what_it_had_finished_counts() -> None:
    begun = dict(list(SYSTEMD.items())[:4])
    steps = {step.rung: step for step in beyond(begun, NOW_S, whole=False)}
    assert steps[Rung.PROVERS].state is State.OK
    assert {rung for rung, step in steps.items() if step.state is State.UNKNOWN} == set(steps) - {Rung.PROVERS}
    assert "cut off" in steps[Rung.GPUS].sentence
    everything = beyond(SYSTEMD, NOW_S, whole=False)
    assert [step.rung for step in everything if step.state is State.UNKNOWN] == [Rung.STATUS]
    assert {step.state for step in beyond({}, NOW_S, whole=False)} == {State.UNKNOWN}
