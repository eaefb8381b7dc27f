"""Conditions keep time of what changed, and only of that."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rackspan.api.conditions import (
    COMPLIANT,
    MAX_MESSAGE,
    READY,
    STALLED,
    ConditionStatus,
    find_condition,
    is_true,
    remove_condition,
    set_condition,
)
from rackspan.api.reasons import Reason

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=3)
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def _ready(existing=(), *, status=FALSE, reason=Reason.CREATING, message="Soon.", generation=1, now=NOON):
    return set_condition(existing, READY, status, reason, message, generation=generation, now=now)


def test_a_new_condition_starts_now():
    (ready,) = _ready()
    assert ready.type == READY
    assert ready.status == "False"
    assert ready.reason == "Creating"
    assert ready.message == "Soon."
    assert ready.observed_generation == 1
    assert ready.last_transition_time == NOON


def test_the_time_stays_while_the_status_stays():
    (ready,) = _ready(_ready(), reason=Reason.INFEASIBLE, message="Never.", generation=2, now=LATER)
    assert ready.last_transition_time == NOON
    assert (ready.reason, ready.message, ready.observed_generation) == ("Infeasible", "Never.", 2)


@pytest.mark.parametrize("status", [TRUE, UNKNOWN])
def test_the_time_moves_when_the_status_changes(status):
    (ready,) = _ready(_ready(), status=status, now=LATER)
    assert ready.last_transition_time == LATER


def test_setting_the_same_again_changes_nothing():
    assert _ready(_ready(), now=LATER) == _ready()


def test_others_stay_as_and_where_they_are():
    both = set_condition(_ready(), COMPLIANT, TRUE, Reason.COMPLIANT, "Fair.", generation=1, now=NOON)
    changed = _ready(both, status=TRUE, reason=Reason.IN_SYNC, now=LATER)
    assert [condition.type for condition in changed] == [READY, COMPLIANT]
    assert changed[1] == both[1]


def test_times_are_whole_seconds_in_utc_so_that_a_stored_condition_is_equal():
    in_paris = datetime(2026, 1, 31, 13, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    (ready,) = _ready(now=in_paris)
    assert ready.last_transition_time == NOON
    assert ready.last_transition_time.utcoffset() == timedelta(0)


def test_a_message_fits_into_the_object():
    (ready,) = _ready(message="x" * (MAX_MESSAGE + 1))
    assert len(ready.message) == MAX_MESSAGE
    assert ready.message.endswith("...")


def test_an_abnormal_condition_is_removed_when_all_is_well():
    stalled = set_condition(_ready(), STALLED, TRUE, Reason.INFEASIBLE, "No.", generation=1, now=NOON)
    assert is_true(stalled, STALLED)
    assert remove_condition(stalled, STALLED) == _ready()
    assert not is_true(_ready(), STALLED)


def test_unknown_is_not_true():
    assert not is_true(_ready(status=UNKNOWN), READY)
    assert find_condition(_ready(), COMPLIANT) is None
