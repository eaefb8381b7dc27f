"""The adaptive throttle: it stays within its bounds, slows down if replicas fall behind, and recovers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rackspan.core.reassignment import Adaptive, PartitionState, Replica, TopicPartition
from rackspan.core.reassignment.pacing import (
    CUT_SECONDS,
    HELD_SECONDS,
    STEP_SECONDS,
    first_pace,
    next_pace,
    replicas_behind,
)

REPLICAS = [Replica(TopicPartition("t", number), broker) for number in range(3) for broker in range(2)]
sets = st.frozensets(st.sampled_from(REPLICAS))
bounds = st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)).map(lambda two: Adaptive(min(two), max(two)))
looks = st.lists(st.tuples(sets, st.integers(1, 400)), max_size=40)


def run(within, seen, behind=frozenset(), now=0):
    paces = [first_pace(within, behind, now)]
    for one, later in seen:
        now += later
        paces.append(next_pace(paces[-1], within, one, now))
    return paces, now


@given(bounds, looks)
def test_rate_stays_within_its_bounds_even_if_the_bounds_change(within, seen):
    paces, now = run(within, seen)
    assert all(within.floor <= pace.rate <= within.ceiling for pace in paces)
    other = Adaptive(within.ceiling, within.ceiling * 2)
    assert next_pace(paces[-1], other, paces[-1].behind, now).rate >= other.floor


@given(bounds, looks)
def test_replicas_that_fall_behind_halve_the_rate_once_and_never_raise_it(within, seen):
    paces, now = run(within, seen)
    before = paces[-1]
    after = next_pace(before, within, frozenset(REPLICAS), now + CUT_SECONDS)
    if before.behind != frozenset(REPLICAS):
        assert after.rate == max(within.floor, before.rate // 2)
        again = next_pace(after, within, frozenset(REPLICAS), now + CUT_SECONDS + STEP_SECONDS)
        assert again.rate == after.rate
    for old, new in pairwise(paces):
        if new.behind - old.behind:
            assert new.rate <= old.rate


@given(bounds, looks, sets)
def test_rate_recovers_to_its_ceiling_even_if_replicas_stay_behind_for_ever(within, seen, ailing):
    paces, now = run(within, seen)
    pace = next_pace(paces[-1], within, ailing, now + STEP_SECONDS)
    now += STEP_SECONDS + HELD_SECONDS
    for _ in range(20):
        now += STEP_SECONDS
        pace = next_pace(pace, within, ailing, now)
    assert pace.rate == within.ceiling


def test_replica_that_falls_behind_holds_the_rate_until_it_catches_up():
    within, (one, *_) = Adaptive(100, 2_100), REPLICAS
    calm, trouble = (frozenset(), STEP_SECONDS), (frozenset({one}), STEP_SECONDS)
    paces, _ = run(within, [calm, calm, calm, trouble, trouble, trouble, calm])
    assert [pace.rate for pace in paces] == [100, 200, 300, 400, 200, 200, 200, 300]
    told = ["Start", "Calm", "Calm", "Calm", "FellBehind", "StillBehind", "StillBehind", "Calm"]
    assert [pace.reason.value for pace in paces] == told


def test_replicas_that_were_behind_at_the_start_do_not_slow_the_rate():
    within, ailing = Adaptive(100, 2_100), frozenset(REPLICAS)
    paces, _ = run(within, [(ailing, STEP_SECONDS)] * 2, behind=ailing)
    assert [pace.rate for pace in paces] == [100, 200, 300]


def test_new_replicas_and_replicas_on_offline_brokers_are_not_behind():
    at = TopicPartition("t", 0)
    state = PartitionState((1, 2, 3, 4), frozenset({1}), 1, adding=frozenset({4}))
    assert replicas_behind({at: state}, frozenset({1, 2, 4})) == {Replica(at, 2)}
