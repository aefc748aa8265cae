import random
import uuid

from hypothesis import given
from hypothesis import strategies as st

from agent.ids import uuid7


@given(st.integers(0, 2**48 - 1), st.integers())
def test_a_uuid7_carries_its_time_version_and_variant(unix_ms: int, seed: int) -> None:
    made = uuid.UUID(uuid7(unix_ms, random.Random(seed)))
    assert made.int >> 80 == unix_ms
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert str(made) == uuid7(unix_ms, random.Random(seed))


def test_later_ids_sort_later() -> None:
    rng = random.Random(0)
    ids = [uuid7(ms, rng) for ms in range(1_700_000_000_000, 1_700_000_000_050)]
    assert ids == sorted(ids)
