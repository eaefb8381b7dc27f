"""Flapping objects are handled less and less often, single changes at once, and neither delays the other."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rackspan.reconcile.runtime.waiting import APART_SECONDS, MAX_SECONDS, MIN_SECONDS, RESET_SECONDS, Debounce


def looks(changes):
    """Return the times at which changes, (at, which) in order, are handled: each time handles all changes so far."""
    debounce, found = Debounce(), []

    def until(now):
        if debounce.due is not None and debounce.due <= now:
            found.append(debounce.due)
            debounce.handled(debounce.due)

    for at, which in changes:
        until(at)
        debounce.changed(which, at)
    until(float("inf"))
    return found


def of_one(*times):
    return [(at, "node") for at in times]


def test_rare_change_is_handled_after_the_minimum_time():
    assert looks(of_one(0, 100, 200)) == [MIN_SECONDS, 100 + MIN_SECONDS, 200 + MIN_SECONDS]


def test_fifty_changes_within_seventeen_seconds_are_handled_seven_times():
    assert len(looks(of_one(*(number * 17 / 50 for number in range(50))))) == 7


def test_nodes_relabelled_one_after_the_other_are_each_handled_after_the_minimum_time():
    changes = [(2 * number, f"node-{number}") for number in range(100)]
    assert looks(changes) == [at + MIN_SECONDS for at, _ in changes]


def test_many_concurrent_node_changes_are_handled_about_once_a_second():
    found = looks([(number / 50, f"node-{number}") for number in range(500)])
    assert len(found) == 11


def test_flapping_label_does_not_delay_changes_of_others():
    flapping = of_one(*(number / 2 for number in range(60)))
    calm = [(10.25, "other"), (20.25, "another")]
    found = looks(sorted([*flapping, *calm]))
    for at, _ in calm:
        assert any(at < look <= at + MIN_SECONDS + APART_SECONDS for look in found)


def test_single_changes_are_forgotten_after_the_reset_time():
    debounce = Debounce()
    for number in range(1_000):
        debounce.changed(number, 0)
    debounce.handled(MIN_SECONDS)
    debounce.changed("later", 2 * RESET_SECONDS)
    debounce.handled(2 * RESET_SECONDS + MIN_SECONDS)
    assert len(debounce._last) == 1


changes_of_some = st.lists(st.tuples(st.floats(0, 100), st.sampled_from("abc")), min_size=1, max_size=60).map(sorted)


@given(changes_of_some)
def test_every_change_is_handled_within_the_maximum_time(changes):
    found = looks(changes)
    for at, _ in changes:
        assert any(at <= look <= at + MAX_SECONDS for look in found)


@given(changes_of_some)
def test_changes_are_never_handled_more_often_than_allowed(changes):
    found = looks(changes)
    assert all(later - look > APART_SECONDS - 1e-6 for look, later in pairwise(found))


@given(st.integers(1, 40), st.floats(0.05, 4))
def test_flapping_object_is_handled_quickly_again_after_the_reset_time(number, every):
    times = [step * every for step in range(number)]
    later = times[-1] + 2 * RESET_SECONDS
    assert looks(of_one(*times, later))[-1] == later + MIN_SECONDS
