"""The states of a job as a table."""

import pytest

from wire.errors import LocalProtocolError
from wire.jobs import ENDED, TRANSITIONS, InvalidTransition, JobEvent, JobState, advance


def test_every_state_has_a_row() -> None:
    assert set(TRANSITIONS) == set(JobState)
    assert {JobState.DONE, JobState.FAILED, JobState.CANCELLED} == ENDED


@pytest.mark.parametrize("event", JobEvent)
@pytest.mark.parametrize("state", JobState)
def test_every_pair_moves_by_the_table_or_is_a_typed_error(state: JobState, event: JobEvent) -> None:
    if event in TRANSITIONS[state]:
        assert advance(state, event) == TRANSITIONS[state][event]
        return
    with pytest.raises(InvalidTransition, match=event) as caught:
        advance(state, event)
    assert (caught.value.state, caught.value.event) == (state, event)
    assert isinstance(caught.value, LocalProtocolError)


def test_every_state_is_reached_and_every_open_one_can_end() -> None:
    reached = {JobState.QUEUED}
    for _ in JobState:
        reached |= {after for state in reached for after in TRANSITIONS[state].values()}
    assert reached == set(JobState)
    for state in set(JobState) - ENDED:
        assert TRANSITIONS[state][JobEvent.CANCEL] == JobState.CANCELLED
        assert TRANSITIONS[state][JobEvent.GIVE_UP] == JobState.FAILED


def test_nothing_is_done_that_was_not_verified() -> None:
    doors = {state for state, moves in TRANSITIONS.items() if JobState.DONE in moves.values()}
    assert doors == {JobState.VERIFYING}
