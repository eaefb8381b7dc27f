"""Bytes per second that a group reads, computed from its committed offsets at two times."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.test_locality import PARTITIONS, REPLICAS

from rackspan.core.consumers.rates import bytes_per_offset, rates, written_rates

ROWS = [(PARTITIONS.names[topic], number) for topic, number in zip(PARTITIONS.topic, PARTITIONS.number, strict=True)]


def test_bytes_per_offset_is_the_mean_of_the_log():
    start, end, size = np.array([0, 5, 5, -1, 0, 0]), np.array([10, 5, 15, 9, -1, 4]), np.array([50, 9, 20, 1, 1, -1])
    assert bytes_per_offset(start, end, size).tolist()[:1] == [5.0]
    assert np.isnan(bytes_per_offset(start, end, size)).tolist() == [False, True, False, True, True, True]


def test_invalid_offsets_give_no_rate():
    least, most = -(2**63), 2**63 - 1
    start, end = np.array([least, -2, 0]), np.array([most, most, most])
    mean = bytes_per_offset(start, end, np.array([most, 1, most]))
    assert np.isnan(mean).tolist() == [True, True, False]
    written = written_rates(start, end, 1.0, np.ones(3))
    assert np.isnan(written).tolist() == [True, True, False]
    assert (mean[2], written[2]) == (1.0, float(most))


def test_read_rate_is_computed_from_the_offsets_committed_in_between():
    per_offset = np.array([100.0, 10.0, math.nan, 1.0, math.nan])
    before = {("orders", 0): 10, ("orders", 1): 10, ("orders", 2): 5, ("orders", 3): 7, ("sales", 0): 3}
    after = {("orders", 0): 30, ("orders", 1): 10, ("orders", 2): 6, ("orders", 3): 2, ("sales", 0): 3, ("gone", 0): 9}
    found = rates(REPLICAS, before, after, 10.0, per_offset)
    # 20 offsets of 100 bytes; none; one of unknown size; offset set back; none, so the unknown size does not matter.
    assert np.nan_to_num(found, nan=-1.0).tolist() == [200.0, 0.0, -1.0, -1.0, 0.0]


OFFSETS = st.dictionaries(st.sampled_from([*ROWS, ("gone", 0), ("orders", 99)]), st.integers(0, 50))


@given(OFFSETS, OFFSETS, st.lists(st.one_of(st.just(math.nan), st.floats(0, 1e6)), min_size=5, max_size=5))
def test_rates_match_the_rates_of_single_partitions(before, after, sizes):
    found = rates(REPLICAS, before, after, 4.0, np.array(sizes))
    for row, key, each in zip(found.tolist(), ROWS, sizes, strict=True):
        if key not in before or key not in after or after[key] < before[key]:
            assert math.isnan(row)
        elif after[key] == before[key]:
            assert row == 0
        else:
            assert row == (after[key] - before[key]) * each / 4.0 or (math.isnan(row) and math.isnan(each))
