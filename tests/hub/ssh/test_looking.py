"""What a look's output says: believed only where the agent signed it, bounded, and harmless to show."""

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hub.ssh.cause import REMEDIES, Cause
from hub.ssh.ladder import Rung, State
from hub.ssh.looking import SHOWN_BYTES_MAX, doing, ladder_of, script
from hub.ssh.record import Origin, Record
from tests.hub.ssh.test_ladder import NOW_S, SYSTEMD
from wire.engines import EngineJob, EngineReading, EngineState
from wire.signed_status import SignedStatus, signed
from wire.status import NodeStatus, WorkerReading, WorkerState

NODE = "01890a5d-ac96-774b-bcce-b302099a0001"
OTHER = "01890a5d-ac96-774b-bcce-b302099a0002"
NONCE = bytes(range(16))
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = KEY.public_key().public_bytes_raw()
PROVING = NodeStatus(workers=[WorkerReading(device="host", state=WorkerState.PROVING, pid=815)])


def frame(*, agent_id: str = NODE, nonce: bytes = NONCE, key: Ed25519PrivateKey = KEY) -> str:
    status = SignedStatus(
        agent_id=agent_id, epoch=NODE, boot_id="b", nonce=nonce, time_ms=1, monotonic_ns=1, status=PROVING
    )
    return signed(status, key.sign)


def printed(**changes: str) -> bytes:
    sections = {**SYSTEMD, **changes}
    return "".join(f"== {name}\n{text}\n" for name, text in sections.items()).encode()


def record(stdout: bytes, **changes: object) -> Record:
    made = Record(
        id=OTHER,
        node_id=NODE,
        target="root@203.0.113.5:22022",
        purpose="look",
        started_at_ms=round(NOW_S * 1000),
        duration_s=1.5,
        argv=("ssh",),
        exit_code=0,
        signal=None,
        stdout=stdout,
        before=b"",
        stderr=b"",
        stdout_bytes=len(stdout),
        stderr_bytes=0,
        remote_exit_code=0,
        cause=Cause.OK,
        evidence="",
        remedy="",
        origin=Origin(host="hub", user="hub", pid=1, version="1", ssh_version="", fingerprints=(), asked_by="hub"),
        began=True,
    )
    return msgspec.structs.replace(made, **changes)


def test_a_status_signed_for_this_look_is_taken() -> None:
    ladder, status = ladder_of(record(printed(frame=frame())), nonce=NONCE, agent_key=PUBLIC)
    assert status is not None
    assert status.status == PROVING
    assert ladder.step(Rung.STATUS).sentence.endswith("with a signed status: proving")
    assert ladder.at_ms == round(NOW_S * 1000) + 1500
    assert ladder.summary == "the node answers on every rung"
    assert {step.state for step in ladder.steps} == {State.OK}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (frame(nonce=bytes(16)), "another time"),
        (frame(agent_id=OTHER), "another node's"),
        (frame(key=Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32)), "not signed by the key"),
        ("pws1.AAAA", "is not believed"),
        ("pws1.\u202egarbage", "it is none"),
        ("pws1.", "is not believed"),
    ],
    ids=["replayed", "another agent", "another key", "short", "garbage", "empty"],
)
def test_any_other_status_is_said_and_not_believed(said: str, why: str) -> None:
    ladder, status = ladder_of(record(printed(frame=said)), nonce=NONCE, agent_key=PUBLIC)
    assert status is None
    step = ladder.step(Rung.STATUS)
    assert step.state is State.FAILED
    assert why in step.sentence


def test_of_several_agents_on_a_machine_the_right_one_is_found() -> None:
    said = f"{frame(agent_id=OTHER)}\nwarning: something\n{frame()}"
    _, status = ladder_of(record(printed(frame=said)), nonce=NONCE, agent_key=PUBLIC)
    assert status is not None
    assert status.agent_id == NODE


def test_of_a_node_that_prints_megabytes_and_escapes_little_is_shown_and_that_harmless() -> None:
    flood = printed(processes="815 R worker \x1b[2J\u202e" + "x" * 4_000_000)
    ladder, _ = ladder_of(record(flood), nonce=NONCE, agent_key=PUBLIC)
    told = "".join(step.sentence + step.detail for step in ladder.steps)
    assert len(told) < 2 * SHOWN_BYTES_MAX
    assert "\x1b" not in told
    assert "\u202e" not in told


def test_a_way_that_is_shut_says_nothing_of_provers() -> None:
    shut = record(
        b"",
        exit_code=255,
        remote_exit_code=None,
        began=False,
        cause=Cause.IDENTITY_REFUSED,
        evidence="Permission denied (publickey).",
        remedy=REMEDIES[Cause.IDENTITY_REFUSED],
    )
    ladder, status = ladder_of(shut, nonce=NONCE, agent_key=PUBLIC)
    assert (ladder.reached, status) == (False, None)
    assert ladder.step(Rung.LOGIN).state is State.FAILED
    assert ladder.step(Rung.PROVERS).state is State.UNKNOWN


def test_a_look_that_ran_into_its_deadline_tells_what_it_had() -> None:
    begun = b"".join(printed().partition(b"== gpus")[:1])
    cut = record(begun, exit_code=None, remote_exit_code=None, cause=Cause.DEADLINE)
    ladder, _ = ladder_of(cut, nonce=NONCE, agent_key=PUBLIC)
    assert ladder.reached
    assert ladder.step(Rung.PROVERS).state is State.OK
    assert ladder.step(Rung.GPUS).state is State.UNKNOWN


def test_a_look_of_long_ago_is_read_without_its_nonce() -> None:
    ladder, status = ladder_of(record(printed(frame=frame())))
    assert status is None
    assert ladder.step(Rung.STATUS).state is State.OK


def test_the_script_asks_for_this_nonce() -> None:
    assert f"nonce={NONCE.hex()}" in script(NONCE)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (PROVING, "proving"),
        (NodeStatus(), "without a worker"),
        (NodeStatus(workers=[WorkerReading("host", WorkerState.IDLE), WorkerReading("x", WorkerState.DOWN)]), "idle"),
        (NodeStatus(workers=[WorkerReading("host", WorkerState.DOWN)]), "its worker down"),
        (
            NodeStatus(engines=[EngineReading(engine="cuzk", state=EngineState.OK, jobs=(EngineJob("1", "p"),))]),
            "proving",
        ),
        (NodeStatus(engines=[EngineReading(engine="cuzk", state=EngineState.OK)]), "idle"),
    ],
)
def test_what_a_node_does(status: NodeStatus, said: str) -> None:
    assert doing(status) == said
