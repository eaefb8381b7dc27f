"""What flaps is looked at ever less often, and what changes once at once."""

from hypothesis import given
from hypothesis import strategies as st

from rackspan.reconcile.runtime.debounce import MAX_SECONDS, MIN_SECONDS, RESET_SECONDS, Debounce


def looks(changes):
    """When changes at these times are looked at: each look takes what came while it was waited for."""
    debounce, found = Debounce(), []
    for at in changes:
        if not found or at > found[-1]:
            found.append(at + debounce.delay(at))
    return found


def test_a_change_in_calm_times_is_looked_at_at_once():
    assert looks([0, 100, 200]) == [MIN_SECONDS, 100 + MIN_SECONDS, 200 + MIN_SECONDS]


def test_fifty_changes_within_seventeen_seconds_are_looked_at_seven_times():
    changes = [number * 17 / 50 for number in range(50)]
    assert len(looks(changes)) == 7


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60).map(sorted))
def test_every_change_is_looked_at_within_the_longest_wait(changes):
    found = looks(changes)
    for at in changes:
        assert any(at <= look <= at + MAX_SECONDS for look in found)


@given(st.integers(1, 40), st.floats(0.05, 4))
def test_what_has_flapped_is_quick_again_after_a_calm(number, every):
    changes = [step * every for step in range(number)]
    later = changes[-1] + 2 * RESET_SECONDS
    assert looks([*changes, later])[-1] == later + MIN_SECONDS
