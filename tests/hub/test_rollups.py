"""Rows of the history, and how one tier is made from the one below."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.rollups import (
    TIERS,
    Rolled,
    Rollup,
    Sample,
    Tier,
    combined,
    fields_in,
    mask_of,
    merged,
    of_sample,
    of_samples,
    pack_rolled,
    pack_sample,
    unpack_rolled,
    unpack_sample,
)
from hub.series import FIELDS_MAX

numbers = st.integers(0, 2**53) | st.floats(-300, 2**53, allow_nan=False)
samples = st.dictionaries(
    st.integers(1, 256), st.dictionaries(st.integers(0, FIELDS_MAX - 1), numbers, min_size=1, max_size=8), max_size=4
)


@given(samples)
def test_a_sample_comes_back_as_it_was(sample: Sample) -> None:
    assert unpack_sample(pack_sample(sample)) == sample


@given(st.lists(samples, min_size=1, max_size=6))
def test_a_rollup_comes_back_as_it_was(some: list[Sample]) -> None:
    rolled = combined(of_sample(sample) for sample in some)
    assert unpack_rolled(pack_rolled(rolled)) == rolled


@given(st.lists(numbers, min_size=1, max_size=40), st.data())
def test_parts_of_parts_say_what_the_whole_says(values: list[float], data: st.DataObject) -> None:
    parts = [Rollup(1, value, float(value), value, value) for value in values]
    whole = merged(parts)
    assert (whole.samples, whole.low, whole.high, whole.last) == (len(values), min(values), max(values), values[-1])
    assert math.isclose(whole.mean, math.fsum(values) / len(values), rel_tol=1e-9, abs_tol=1e-6)
    cut = data.draw(st.integers(1, len(parts)))
    again = merged([merged(parts[:cut]), *([merged(parts[cut:])] if parts[cut:] else [])])
    assert again[:2] == whole[:2]
    assert again[3:] == whole[3:]
    assert math.isclose(again.mean, whole.mean, rel_tol=1e-9, abs_tol=1e-6)
    assert whole.low <= whole.mean <= whole.high


@given(st.lists(samples, max_size=6))
def test_samples_as_one_are_what_each_by_itself_would_be_together(some: list[Sample]) -> None:
    one, other = of_samples(some), combined(of_sample(sample) for sample in some)
    assert one.keys() == other.keys()
    for source, fields in one.items():
        assert fields.keys() == other[source].keys()
        for field, rollup in fields.items():
            assert rollup._replace(mean=0.0) == other[source][field]._replace(mean=0.0)
            assert math.isclose(rollup.mean, other[source][field].mean, rel_tol=1e-9, abs_tol=1e-6)


def test_a_field_that_is_missing_in_some_rows_counts_those_that_have_it() -> None:
    rows: list[Rolled] = [of_sample({1: {0: 4}}), of_sample({1: {0: 6, 3: 1}}), of_sample({2: {0: 9}})]
    assert combined(rows) == {
        1: {0: Rollup(2, 4, 5.0, 6, 6), 3: Rollup(1, 1, 1.0, 1, 1)},
        2: {0: Rollup(1, 9, 9.0, 9, 9)},
    }


@given(st.sets(st.integers(0, FIELDS_MAX - 1)))
def test_bits_stand_for_fields(fields: set[int]) -> None:
    assert list(fields_in(mask_of(fields))) == sorted(fields)
    assert mask_of(fields) < 2**63


def test_tiers_stand_above_each_other() -> None:
    assert [tier.above for tier in TIERS] == [*TIERS[1:], None]
    assert [tier.below for tier in TIERS[1:]] == list(TIERS[:-1])
    for tier in TIERS[2:]:
        assert tier.width_ms % tier.below.width_ms == 0
    assert Tier.HOUR.start_of(3_600_000 * 5 + 17) == 3_600_000 * 5
    assert Tier.RAW.start_of(17) == 17


def test_a_row_that_is_none_is_refused() -> None:
    for data in (b"", b"\x93", b"\x91\x01"):
        with pytest.raises((ValueError, TypeError)):
            unpack_sample(data)
