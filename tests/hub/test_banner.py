"""The fleet's banner: alike is one line, the hub's own side stands first, and nothing likely is certain."""

import msgspec

from hub.banner import LINES_MAX, Ailing, banner
from hub.facts import Severity, Trouble
from hub.ssh.cause import Cause
from hub.ssh.verdict import Incident, Problem

T0 = 1_700_000_000_000
REPLACED = Problem(Cause.IDENTITY_REFUSED, "the hub's key was replaced: SHA256:a before, SHA256:b now", T0 - 60_000)


def trouble(state: str = "agent_dead", **changes: object) -> Trouble:
    values: dict[str, object] = {
        "state": state,
        "text": state,
        "severity": Severity.BAD,
        "cause": f"why {state}",
        "remedy": "do something",
        "since_ms": T0,
    }
    return Trouble(**(values | changes))  # type: ignore[arg-type]  # each test names fields of the record


def ailing(count: int, *troubles: Trouble) -> dict[str, Ailing]:
    return {f"id-{number}": Ailing(f"gpu-{number}", tuple(troubles)) for number in range(count)}


def incident(nodes: int = 5, problems: tuple[Problem, ...] = (), cause: Cause = Cause.IDENTITY_REFUSED) -> Incident:
    names = tuple(f"id-{number}" for number in range(nodes))
    return Incident(cause=cause, nodes=names, fleet=6, since_ms=T0, ours=False, problems=problems)


def test_a_fleet_that_is_well_has_none() -> None:
    assert banner({}, fleet=6, incidents=[], problems=[]) == []


def test_one_bad_node_is_a_line_and_one_that_only_warns_is_not() -> None:
    (line,) = banner(ailing(1, trouble()), fleet=6, incidents=[], problems=[])
    assert line.headline == "1 of 6 nodes: lost: the agent does not run (gpu-0)"
    assert (line.cause, line.remedy, line.certain, line.since_ms) == ("why agent_dead", "do something", True, T0)
    assert banner(ailing(2, trouble(severity=Severity.WARN)), fleet=6, incidents=[], problems=[]) == []


def test_many_alike_are_one_line_since_the_first() -> None:
    nodes = {
        f"id-{number}": Ailing(f"gpu-{number}", (trouble(cause=f"why {number}", since_ms=T0 + number * 1000),))
        for number in range(5)
    }
    (line,) = banner(nodes, fleet=6, incidents=[], problems=[])
    assert line.headline == "5 of 6 nodes: lost: the agent does not run (gpu-0, gpu-1, gpu-2 and 2 more)"
    assert line.cause == "gpu-0: why 0"
    assert line.remedy == "gpu-0: do something Likewise the others."
    assert (line.since_ms, len(line.nodes)) == (T0, 5)


def test_a_remedy_that_names_a_node_is_that_nodes() -> None:
    nodes = {
        f"id-{number}": Ailing(f"gpu-{number}", (trouble("lost", cause="why", remedy=f"`probe gpu-{number}`."),))
        for number in range(3)
    }
    (line,) = banner(nodes, fleet=6, incidents=[], problems=[])
    assert (line.cause, line.remedy) == ("why", "gpu-0: `probe gpu-0`. Likewise the others.")


def test_one_that_is_not_sure_makes_the_verdict_unsure() -> None:
    nodes = {**ailing(3, trouble()), "x": Ailing("x", (trouble(certain=False),))}
    (line,) = banner(nodes, fleet=6, incidents=[], problems=[])
    assert not line.certain


def test_many_warnings_alike_are_a_line() -> None:
    (line,) = banner(ailing(3, trouble("disk_filling", severity=Severity.WARN)), fleet=6, incidents=[], problems=[])
    assert (line.state, line.severity) == ("disk_filling", Severity.WARN)
    assert banner(ailing(3, trouble("disk_filling", severity=Severity.WARN)), fleet=60, incidents=[], problems=[]) == []


def test_ways_in_to_nodes_that_are_heard_stand_below_nodes_that_do_not_prove() -> None:
    broken = trouble("fallback_broken", severity=Severity.WARN)
    lines = banner(
        {**ailing(5, broken), "y": Ailing("y", (trouble(),)), "z": Ailing("z", (trouble("gpu_lost"),))},
        fleet=7,
        incidents=[incident(problems=(REPLACED,))],
        problems=[REPLACED],
    )
    assert [line.state for line in lines] == ["agent_dead", "gpu_lost", "identity_refused"], "told once"
    last = lines[-1]
    assert last.cause == f"probably this side: {REPLACED.sentence}"
    assert (last.remedy, last.certain, last.ours) == (REPLACED.remedy, False, True)
    assert last.headline == incident().headline


def test_why_lost_nodes_cannot_be_looked_at_stands_directly_below_them() -> None:
    nodes = {**ailing(2, trouble("lost", certain=False)), "z": Ailing("z", (trouble("gpu_lost"),))}
    lines = banner(nodes, fleet=6, incidents=[incident(problems=(REPLACED,))], problems=[REPLACED])
    assert [line.state for line in lines] == ["lost", "identity_refused", "gpu_lost"]
    assert lines[1].headline == f"{incident().headline}; 2 of them are lost and cannot be looked at"


def test_what_on_this_side_may_keep_agents_away_stands_first() -> None:
    cause = Cause.NETWORK_UNREACHABLE
    down = msgspec.structs.replace(incident(cause=cause), ours=True)
    nodes = {**ailing(5, trouble("lost")), "y": Ailing("y", (trouble("hub_is_older"),))}
    lines = banner(nodes, fleet=6, incidents=[down], problems=[])
    assert [line.state for line in lines] == ["network_unreachable", "hub_is_older", "lost"]


def test_another_problem_at_the_same_time_is_no_reason() -> None:
    other = Problem(Cause.SSH_MISSING, "ssh cannot be started", T0)
    lines = banner({}, fleet=6, incidents=[incident()], problems=[other])
    assert lines[0].cause == "not known; at the same time on this side: ssh cannot be started"
    assert not lines[0].ours
    assert [line.state for line in lines] == ["identity_refused", "ssh_missing"]


def test_what_was_made_good_is_no_line() -> None:
    over = Problem(Cause.HOST_KEY_UNKNOWN, "known_hosts was gone; it was written anew", T0, over_ms=T0)
    assert banner({}, fleet=6, incidents=[], problems=[over]) == []


def test_what_was_over_before_is_no_reason_of_what_began_later() -> None:
    over = msgspec.structs.replace(REPLACED, over_ms=T0 - 1)
    (line,) = banner({}, fleet=6, incidents=[incident()], problems=[over])
    assert line.cause == "not known; the hub found nothing wrong with itself"
    still = msgspec.structs.replace(REPLACED, over_ms=T0)
    (line,) = banner({}, fleet=6, incidents=[incident()], problems=[still])
    assert line.ours


def test_no_more_lines_than_somebody_can_read() -> None:
    nodes = {f"id-{n}": Ailing(f"gpu-{n}", (trouble(f"state_{n}"),)) for n in range(50)}
    assert len(banner(nodes, fleet=60, incidents=[], problems=[])) == LINES_MAX
