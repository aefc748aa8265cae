import uuid

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from hub.ids import time_ms_of, uuid7
from wire.jobs import Uuid


@given(st.integers(0, 2**48 - 1))
def test_an_id_is_a_version_7_uuid_that_holds_its_time(time_ms: int) -> None:
    made = uuid7(time_ms)
    parsed = uuid.UUID(made)
    assert (parsed.version, parsed.variant, str(parsed)) == (7, uuid.RFC_4122, made)
    assert time_ms_of(made) == time_ms
    assert msgspec.convert(made, Uuid) == made


@given(st.integers(0, 2**48 - 2))
def test_ids_sort_by_time(time_ms: int) -> None:
    assert uuid7(time_ms) < uuid7(time_ms + 1)


def test_ids_of_one_moment_differ() -> None:
    assert len({uuid7(5) for _ in range(1000)}) == 1000


@pytest.mark.parametrize("time_ms", [-1, 2**48])
def test_a_time_that_does_not_fit_is_named(time_ms: int) -> None:
    with pytest.raises(ValueError, match=str(time_ms)):
        uuid7(time_ms)


def test_the_time_is_now_unless_given() -> None:
    assert abs(time_ms_of(uuid7()) - time_ms_of(uuid7())) < 10_000
