"""Every cause from what ssh says, how it ended and how far it came."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.ssh.cause import REMEDIES, Cause
from hub.ssh.causes import SSH_FAILED, TEXT_CHARS_MAX, Ending, diagnose
from hub.ssh.rules import RULES
from tests.hub.ssh.corpus import CORPUS
from tests.wire.strategies import patiently


@pytest.mark.parametrize(("cause", "said"), CORPUS, ids=[f"{n}-{cause.value}" for n, (cause, _) in enumerate(CORPUS)])
def test_what_clients_say_is_recognised(cause: Cause, said: str) -> None:
    found = diagnose(Ending(stderr=said, exit_code=SSH_FAILED))
    assert found.cause is cause
    assert found.remedy
    assert found.evidence in said.replace("\r", "")


@pytest.mark.parametrize(("cause", "said"), CORPUS, ids=[f"{n}-{cause.value}" for n, (cause, _) in enumerate(CORPUS)])
def test_a_greeting_before_and_noise_behind_do_not_hide_it(cause: Cause, said: str) -> None:
    if cause is Cause.UNRECOGNISED:
        return
    noisy = f"*** authorised use only ***\nLast login: Mon\n{said}\nBye.\n"
    assert diagnose(Ending(stderr=noisy, exit_code=SSH_FAILED)).cause is cause
    flooded = f"{said}\n" + "x" * 1_000_000
    assert diagnose(Ending(stderr=flooded, exit_code=SSH_FAILED)).cause is cause


@pytest.mark.parametrize(
    "word", ["Load key ", "x", "Permission denied (", "connect to host ", "line 1: Bad ", "@" * 60]
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_what_a_stranger_repeats_for_ever_is_soon_read(word: str, end: str) -> None:
    """Matching holds up the whole hub: no text may take a rule by surprise."""
    text = (word + end) * (4 * TEXT_CHARS_MAX // len(word + end))
    assert diagnose(Ending(stderr=text, exit_code=SSH_FAILED)).remedy


def test_every_rule_has_an_example() -> None:
    shown = {cause for cause, _ in CORPUS}
    assert {rule.cause for rule in RULES} - shown == {Cause.OUT_OF_DESCRIPTORS}


def test_every_cause_says_what_to_do() -> None:
    assert set(REMEDIES) == set(Cause)
    assert all(REMEDIES[cause].endswith(".") for cause in Cause if cause is not Cause.OK)
    assert {cause: text for cause, text in REMEDIES.items() if len(text) > 320} == {}


ENDINGS: list[tuple[Cause, Ending]] = [
    (Cause.OK, Ending(exit_code=0, began=True, remote_exit_code=0)),
    (Cause.OK, Ending(stderr="Connection to h closed by remote host.", exit_code=255, began=True, remote_exit_code=0)),
    (Cause.REMOTE_FAILED, Ending(exit_code=0, began=True, remote_exit_code=1)),
    (Cause.REMOTE_255, Ending(exit_code=0, began=True, remote_exit_code=255)),
    (Cause.REMOTE_NOT_FOUND, Ending(stderr="sh: 1: x: not found", exit_code=0, began=True, remote_exit_code=127)),
    (Cause.REMOTE_NOT_EXECUTABLE, Ending(exit_code=0, began=True, remote_exit_code=126)),
    (Cause.REMOTE_KILLED, Ending(exit_code=0, began=True, remote_exit_code=137)),
    (Cause.REMOTE_KILLED, Ending(exit_code=255, began=True)),
    (Cause.REMOTE_KILLED, Ending(exit_code=255, began=True, through_master=True, master_alive=True)),
    (Cause.MASTER_DIED, Ending(exit_code=255, began=True, through_master=True, master_alive=False)),
    (Cause.MASTER_DIED, Ending(exit_code=255, through_master=True)),
    (Cause.MASTER_HUNG, Ending(timed_out=True, through_master=True, master_alive=False)),
    (Cause.DEADLINE, Ending(timed_out=True, through_master=True, master_alive=True)),
    (Cause.DEADLINE, Ending(timed_out=True, stderr="Warning: something")),
    (Cause.SSH_MISSING, Ending(spawn_error="ssh: No such file or directory")),
    (Cause.OUT_OF_DESCRIPTORS, Ending(spawn_error="ssh: Too many open files")),
    (Cause.SSH_KILLED, Ending(signal=9)),
    (Cause.UNRECOGNISED, Ending(exit_code=255)),
    (Cause.OUTPUT_CUT, Ending(exit_code=0, began=True)),
    (Cause.OUTPUT_CUT, Ending(exit_code=1, began=True, stderr="odd")),
    (Cause.LOGIN_FORBIDDEN, Ending(exit_code=1)),
    (Cause.LOGIN_FORBIDDEN, Ending(exit_code=254, stderr="The system is going down.")),
    (Cause.CONNECTION_LOST, Ending(exit_code=255, began=True, stderr="Timeout, server h not responding.")),
]


@pytest.mark.parametrize(
    ("cause", "ending"), ENDINGS, ids=[f"{n}-{cause.value}" for n, (cause, _) in enumerate(ENDINGS)]
)
def test_how_it_ended_decides_what_words_do_not(cause: Cause, ending: Ending) -> None:
    assert diagnose(ending).cause is cause


def test_without_a_key_the_servers_no_is_our_own_fault() -> None:
    refused = Ending(stderr="root@h: Permission denied (publickey).", exit_code=SSH_FAILED)
    assert diagnose(refused, identities=0).cause is Cause.NO_IDENTITY
    assert diagnose(refused, identities=1).cause is Cause.IDENTITY_REFUSED


@patiently(300)
@given(st.text(max_size=200), st.sampled_from([None, 0, 1, 255]), st.booleans(), st.booleans())
def test_every_ending_has_one_cause(stderr: str, code: int | None, began: bool, timed_out: bool) -> None:  # noqa: FBT001 - drawn
    found = diagnose(Ending(stderr=stderr, exit_code=code, began=began, timed_out=timed_out))
    assert found.cause is not Cause.OK
    assert found.remedy == REMEDIES[found.cause]
