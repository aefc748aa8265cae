"""Targets from elsewhere: every form, what it would change, and that one bad entry stops no other."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.ssh import importing
from hub.ssh.importing import Entry, Form, ImportRefused, Outcome, plan, read
from hub.ssh.reach import Reach, Source
from hub.ssh.targets import Target
from hub.whichnode import NoSuchNode, SeveralNodes, which

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPr7Bf3CQCX+6KZN9TErzQyEsSLqVx3ZUa/oCChHbN0V"
NODES = [
    ("01900000-aaaa-7000-8000-000000000001", "C.1001"),
    ("01900000-bbbb-7000-8000-000000000002", "C.1002"),
    ("01910000-cccc-7000-8000-000000000003", "twin"),
    ("01920000-dddd-7000-8000-000000000004", "twin"),
]


def only(text: str, form: Form = Form.AUTO) -> Entry:
    (entry,) = read(text, form)
    return entry


@pytest.mark.parametrize(
    "line",
    [
        "C.1001 ssh -p 22022 root@203.0.113.5",
        "C.1001: ssh -p 22022 root@203.0.113.5",
        "C.1001,ssh -p 22022 root@203.0.113.5".replace(",", ", "),
        "C.1001\tssh -p 22022 root@203.0.113.5",
        "ssh -p 22022 root@203.0.113.5 C.1001",
        "ssh -p 22022 root@203.0.113.5  # C.1001",
        "ssh root@203.0.113.5 -p 22022 C.1001",
        "C.1001 root@203.0.113.5:22022",
        "C.1001 ssh://root@203.0.113.5:22022",
        "  C.1001   ssh   -p22022   -l root 203.0.113.5  ",
    ],
)
def test_a_line_of_the_old_manager_with_its_node_in_front_or_behind(line: str) -> None:
    entry = only(f"# exported\n\n{line}\n")
    assert (entry.node, entry.target, entry.error) == ("C.1001", Target("203.0.113.5", 22022), "")
    assert entry.line == 3


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ssh -p 22022 root@203.0.113.5", "names no node"),
        ("ssh -p 22022 somehost", "names no node"),
        ("C.1001", "no target"),
        ("C.1001 ssh -p 99999 root@203.0.113.5", "port '99999'"),
        ("C.1001 ssh -o ProxyCommand=evil root@203.0.113.5", "not taken over"),
        ("C.1001 ssh -p 22 -oProxyCommand=evil@h", "not taken over"),
        ("C.1001 -oProxyCommand=x@h", "neither an address nor a name|no name of one"),
        ("C.1001 root@203.0.113.5 rm", "more than one word"),
    ],
)
def test_a_line_that_is_no_target_is_refused_with_the_reason(line: str, why: str) -> None:
    (step,) = plan(read(line, Form.LINES), lambda _: NODES[0][0], lambda _: Reach(node_id="x"))
    assert step.outcome is Outcome.REFUSED
    assert any(part in step.detail for part in why.split("|")), step.detail


def test_an_ssh_config_with_defaults_jumps_and_what_cannot_be_taken() -> None:
    found = read(
        "Host C.1001\n  HostName 203.0.113.5\n  Port 22022\n"
        "Host C.1002 twin\n  HostName=%h.example.org\n  ProxyJump gate@gate.example.org:2222\n"
        "Host odd\n  ProxyCommand nc %h %p\n"
        "Match host C.*\n  Port 9\n"
        "Host *.example.org !x\n  User nobody\n"
        "Host *\n  User ubuntu\n  Port 2022\n"
    )
    gate = Target("gate.example.org", 2222, "gate")
    assert [(entry.node, entry.target) for entry in found] == [
        ("C.1001", Target("203.0.113.5", 22022, "ubuntu")),
        ("C.1002", Target("C.1002.example.org", 2022, "ubuntu", (gate,))),
        ("twin", Target("twin.example.org", 2022, "ubuntu", (gate,))),
        ("odd", None),
    ]
    assert "ProxyJump" in found[-1].error


def test_csv_by_the_names_of_its_columns() -> None:
    found = read(
        "label, uuid, ssh_cmd, public_ip, host_key\n"
        f"C.1001, u-1, ssh -p 22022 root@203.0.113.5, 9.9.9.9, {KEY} host\n"
        "C.1002, u-2, , 203.0.113.6,\n"
        ", , , ,\n"
    )
    assert [(e.node, e.target, e.host_keys) for e in found] == [
        ("C.1001", Target("203.0.113.5", 22022), (KEY,)),
        ("C.1002", Target("203.0.113.6"), ()),
        ("", None, ()),
    ]


def test_json_as_a_list_and_by_node() -> None:
    listed = [{"name": "C.1001", "host": "2001:db8::1", "port": 22022, "user": "u", "host_keys": [KEY]}, "what?"]
    first, second = read(json.dumps(listed))
    assert (first.node, first.target, first.host_keys) == ("C.1001", Target("2001:db8::1", 22022, "u"), (KEY,))
    assert second.error == "the entry is no object"
    by_node = {"C.1001": "root@h:5", "C.1002": {"host": "h", "port": True}}
    first, second = read(json.dumps(by_node))
    assert (first.node, first.target) == ("C.1001", Target("h", 5))
    assert second.error


@pytest.mark.parametrize(
    ("text", "form", "why"),
    [
        ("", Form.AUTO, "no target in it"),
        ("# nothing\n", Form.LINES, "no target in it"),
        ("[1", Form.JSON, "no JSON"),
        ("3", Form.JSON, "list of objects"),
        ('a,b\n"x', Form.CSV, "no CSV"),
        ("n root@h\n" * (importing.ENTRIES_MAX + 1), Form.LINES, "in parts"),
    ],
)
def test_a_text_that_is_none_of_these_is_refused_whole(text: str, form: Form, why: str) -> None:
    with pytest.raises(ImportRefused, match=why):
        read(text, form)


def test_the_plan_tells_what_would_change_and_what_cannot() -> None:
    known = {
        NODES[0][0]: Reach(node_id=NODES[0][0], target=Target("203.0.113.5", 22022), source=Source.OPERATOR),
        NODES[1][0]: Reach(node_id=NODES[1][0], target=Target("old")),
    }
    entries = read(
        "C.1001 root@203.0.113.5:22022\n"
        "01900000-BB root@new\n"
        "01910000 root@h3\n"
        "C.1002 root@other\n"
        "twin root@h4\n"
        "0190 root@h5\n"
        "nobody root@h6\n"
    )
    steps = plan(
        entries, lambda wanted: which(NODES, wanted), lambda node_id: known.get(node_id) or Reach(node_id=node_id)
    )
    assert [(step.line, step.outcome.value) for step in steps] == [
        (1, "same"),
        (2, "changed"),
        (3, "new"),
        (4, "refused"),
        (5, "refused"),
        (6, "refused"),
        (7, "refused"),
    ]
    assert (steps[1].before, steps[1].target) == (Target("old"), Target("new"))
    assert "line 2" in steps[3].detail
    for step in steps[4:6]:
        assert "2 nodes go by" in step.detail
    assert NODES[2][0] in steps[4].detail
    assert NODES[3][0] in steps[4].detail
    assert "C.1001" in steps[5].detail
    assert "no node 'nobody'" in steps[6].detail


def test_host_keys_of_the_text_are_pinned_where_they_differ() -> None:
    entries = read(json.dumps([{"node": NODES[0][0], "target": "root@h", "host_keys": KEY}]))
    same = Reach(node_id=NODES[0][0], target=Target("h"), host_keys=(KEY,))
    other = Reach(node_id=NODES[0][0], target=Target("h"), host_keys=("ssh-ed25519 x",))
    for reach, outcome, keys in ((same, Outcome.SAME, ()), (other, Outcome.CHANGED, (KEY,))):
        (step,) = plan(entries, lambda wanted: wanted, lambda _, reach=reach: reach)  # type: ignore[misc]  # bound now
        assert (step.outcome, step.host_keys) == (outcome, keys)


def test_which_node_is_meant() -> None:
    assert which(NODES, NODES[0][0]) == NODES[0][0]
    assert which(NODES, "C.1002") == NODES[1][0]
    assert which(NODES, "01910") == NODES[2][0]
    with pytest.raises(SeveralNodes, match=NODES[0][0]):
        which(NODES, "0190")
    with pytest.raises(SeveralNodes, match=NODES[3][0]):
        which(NODES, "twin")
    for nobody in ("019", "x", ""):
        with pytest.raises(NoSuchNode):
            which(NODES, nobody)
    with pytest.raises(SeveralNodes, match="and 12 more"):
        which([(f"0190-{n}", "n") for n in range(20)], "0190")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.sampled_from(list(Form)))
def test_whatever_is_imported_only_checked_targets_come_out(text: str, form: Form) -> None:
    try:
        entries = read(text, form)
    except ImportRefused:
        return
    for entry in entries:
        assert bool(entry.error) != (entry.target is not None)
        if entry.target is not None:
            for part in (entry.target.host, entry.target.user):
                assert not part.startswith("-")
                assert not set(part) & set(" \t\n;|&$`'\"<>(){}")
