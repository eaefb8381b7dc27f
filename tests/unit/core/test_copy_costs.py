"""Texts about the cost of copies."""

import pytest

from rackspan.core.copy_costs import removed, removing, to_copy

MIB = 1 << 20


@pytest.mark.parametrize(
    ("number", "throttle", "said"),
    [
        (None, None, "an unknown number of bytes to copy"),
        (None, MIB, "an unknown number of bytes to copy"),
        (0, MIB, "0 B to copy"),
        (590 * MIB, 10 * MIB, "590.0 MiB to copy, under a minute at 10.0 MiB/s and broker"),
        (2_400 * MIB, 10 * MIB, "2.3 GiB to copy, up to 4 min at 10.0 MiB/s and broker"),
        (2_410 * MIB, 10 * MIB, "2.4 GiB to copy, up to 5 min at 10.0 MiB/s and broker"),
        (72_000 * MIB, 10 * MIB, "70.3 GiB to copy, up to 2 h at 10.0 MiB/s and broker"),
    ],
)
def test_to_copy_states_the_longest_time_that_a_broker_may_need(number, throttle, said):
    assert to_copy(number, throttle) == said


def test_removed_states_the_bytes_of_the_replicas_if_they_are_known():
    assert [removed(1), removed(3, None), removed(3, 2 * MIB)] == [
        "1 replica removed",
        "3 replicas removed",
        "3 replicas removed (2.0 MiB)",
    ]
    assert [removing(0), removing(2)] == ["", " and removes 2 replicas"]
