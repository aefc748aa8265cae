"""Ways in and attempts in the store: whole, in order, within their quota, and given up in time."""

import msgspec
import pytest

from hub.ids import uuid7
from hub.ssh.cause import Cause
from hub.ssh.reach import Basis, Reach, Source, State, Suggestion
from hub.ssh.record import Origin, Record
from hub.ssh.targets import Target
from hub.store import sql_ssh
from hub.store.base import Store, StoreUnavailable
from hub.store.records import HubEvent
from tests.hub.store.test_contract import an_agent

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000
ORIGIN = Origin(
    host="hub-1",
    user="provewire",
    pid=7,
    version="0.1.0",
    ssh_version="OpenSSH_9.2p1",
    fingerprints=("SHA256:abc",),
    asked_by="alice",
    asked_from="127.0.0.1",
)
BASIS = Basis(
    target="root@h:22",
    host_keys=("ssh-ed25519 AAAA",),
    fingerprints=("SHA256:abc",),
    ssh_version="OpenSSH_9.2p1",
    version="0.1.0",
    host="hub-1",
    user="provewire",
    pid=7,
)


def a_reach(node_id: str) -> Reach:
    jump = Target("gate.example.org", 2222, "jump")
    return Reach(
        node_id=node_id,
        target=Target("203.0.113.5", 22022, "root", (jump,)),
        source=Source.IMPORT,
        host_keys=("ssh-ed25519 AAAA",),
        pinned_by=Source.NODE,
        jump_keys={jump.known_host: ("ssh-rsa BBBB",)},
        suggested=Suggestion(target=Target("203.0.113.6"), host_keys=("ssh-ed25519 CCCC",), key_install=True),
        changed_at_ms=5,
        tried_at_ms=6,
        state=State.BROKEN,
        proved_at_ms=4,
        broken_since_ms=6,
        cause=Cause.IDENTITY_REFUSED,
        evidence="root@203.0.113.5: Permission denied (publickey).",
        basis=BASIS,
    )


def a_record(node_id: str, at_ms: int = NOW_MS, **changes: object) -> Record:
    record = Record(
        id=uuid7(at_ms),
        node_id=node_id,
        target="root@203.0.113.5:22022",
        purpose="login",
        started_at_ms=at_ms,
        duration_s=0.25,
        argv=("ssh", "-T", "--", "203.0.113.5", "exec sh -c 'true'"),
        exit_code=255,
        signal=None,
        stdout=b"",
        before=b"",
        stderr=b"root@203.0.113.5: Permission denied (publickey).\r\n\xff\x1b[31m",
        stdout_bytes=0,
        stderr_bytes=50,
        remote_exit_code=None,
        cause=Cause.IDENTITY_REFUSED,
        evidence="root@203.0.113.5: Permission denied (publickey).",
        remedy="do this",
        origin=ORIGIN,
        retry_of="",
        note="a note",
        verbose="debug1: Offering public key",
        differs=("the hub's key: SHA256:x then, SHA256:abc now",),
    )
    return msgspec.structs.replace(record, **changes)


async def test_a_way_in_is_kept_whole_and_a_later_one_takes_its_place(store: Store) -> None:
    one, two = await an_agent(store, "n1"), await an_agent(store, "n2")
    reach, bare = a_reach(one.id), Reach(node_id=two.id)
    await store.save_ssh_target(reach)
    await store.save_ssh_target(bare)
    assert await store.ssh_targets() == [reach, bare]
    other = reach.with_target(None, Source.OPERATOR, 9)
    await store.save_ssh_target(other)
    assert await store.ssh_targets() == [other, bare]


async def test_a_way_in_is_changed_with_who_changed_it_or_not_at_all(store: Store) -> None:
    agent = await an_agent(store)
    event = HubEvent(
        id=uuid7(NOW_MS), agent_id=agent.id, time_ms=NOW_MS, kind="ssh.target", level="info", detail="alice: this"
    )
    await store.save_ssh_target(a_reach(agent.id), event)
    assert await store.hub_events(agent.id) == [event]
    with pytest.raises(StoreUnavailable):
        await store.save_ssh_target(Reach(node_id=agent.id), event)  # the event's id is taken: both are undone
    assert await store.ssh_targets() == [a_reach(agent.id)]


async def test_an_attempt_is_kept_whole_with_what_it_says_of_the_way(store: Store) -> None:
    agent = await an_agent(store)
    first = a_record(agent.id, cause=Cause.MASTER_DIED)
    second = a_record(agent.id, NOW_MS + 1, retry_of=first.id, began=True, fresh=False, stdout=b"\x00\xffout")
    await store.add_ssh_attempts([first, second], a_reach(agent.id))
    assert await store.ssh_attempt(first.id) == first
    assert await store.ssh_attempt(second.id) == second
    assert await store.ssh_targets() == [a_reach(agent.id)]
    assert await store.ssh_attempt("none") is None


async def test_attempts_are_listed_newest_first_without_their_bulk(store: Store) -> None:
    agent, other = await an_agent(store, "n1"), await an_agent(store, "n2")
    made = [a_record(agent.id, NOW_MS + n, stderr=b"e" * 100_000, stdout=b"o" * 100) for n in range(5)]
    await store.add_ssh_attempts(made)
    await store.add_ssh_attempts([a_record(other.id)])
    first = await store.ssh_attempts(agent.id, limit=3)
    rest = await store.ssh_attempts(agent.id, before=first[-1].id, limit=3)
    assert [record.id for record in [*first, *rest]] == [record.id for record in reversed(made)]
    assert {record.stdout for record in first} == {b""}
    assert {record.stderr for record in first} == {b"e" * sql_ssh.STDERR_LISTED_BYTES}
    assert first[0].origin == ORIGIN
    silent = a_record(agent.id, NOW_MS + 9, stderr=b"", verbose="")
    await store.add_ssh_attempts([silent])
    assert await store.ssh_attempts(agent.id, limit=1) == [silent]


async def test_a_node_keeps_its_newest_attempts_and_no_more_bytes_than_its_share(store: Store) -> None:
    agent, other = await an_agent(store, "n1"), await an_agent(store, "n2")
    await store.add_ssh_attempts([a_record(other.id)])
    made = [a_record(agent.id, NOW_MS + n) for n in range(sql_ssh.KEPT_OF_A_NODE + 7)]
    await store.add_ssh_attempts(made)
    kept = await store.ssh_attempts(agent.id)
    assert [record.id for record in kept] == [record.id for record in reversed(made[7:])]
    for number in range(40):
        await store.add_ssh_attempts([a_record(agent.id, NOW_MS + 10_000 + number, stderr=b"x" * 1024**2)])
    usage = await store.usage()
    assert usage.volumes["ssh_attempts"].rows == 31 + 1
    assert usage.volumes["ssh_attempts"].size_bytes <= sql_ssh.BYTES_OF_A_NODE + 2000
    assert len(await store.ssh_attempts(other.id)) == 1
    huge = a_record(agent.id, NOW_MS + 20_000, stdout=b"h" + b"o" * 5_000_000 + b"t")
    await store.add_ssh_attempts([huge])
    found = await store.ssh_attempt(huge.id)
    assert found is not None
    assert len(found.stdout) < sql_ssh.STDOUT_BYTES_MAX + 100
    assert (found.stdout[:1], found.stdout[-1:]) == (b"h", b"t")


async def test_old_attempts_are_given_up_in_steps(store: Store) -> None:
    agent = await an_agent(store)
    made = [a_record(agent.id, NOW_MS + n * DAY_MS) for n in range(10)]
    await store.add_ssh_attempts(made)
    done = []
    while gone := await store.expire_ssh_attempts(NOW_MS + 6 * DAY_MS, limit=4):
        done.append(gone)
    assert done == [4, 2]
    assert [record.id for record in await store.ssh_attempts(agent.id)] == [record.id for record in reversed(made[6:])]
