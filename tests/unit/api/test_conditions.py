"""Conditions record when their status changed."""

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


def test_new_condition_has_the_current_transition_time():
    (ready,) = _ready()
    assert ready.type == READY
    assert ready.status == "False"
    assert ready.reason == "Creating"
    assert ready.message == "Soon."
    assert ready.observed_generation == 1
    assert ready.last_transition_time == NOON


def test_transition_time_stays_if_the_status_does_not_change():
    (ready,) = _ready(_ready(), reason=Reason.INFEASIBLE, message="Never.", generation=2, now=LATER)
    assert ready.last_transition_time == NOON
    assert (ready.reason, ready.message, ready.observed_generation) == ("Infeasible", "Never.", 2)


@pytest.mark.parametrize("status", [TRUE, UNKNOWN])
def test_transition_time_is_updated_if_the_status_changes(status):
    (ready,) = _ready(_ready(), status=status, now=LATER)
    assert ready.last_transition_time == LATER


def test_setting_an_equal_condition_changes_nothing():
    assert _ready(_ready(), now=LATER) == _ready()


def test_other_conditions_keep_their_value_and_position():
    both = set_condition(_ready(), COMPLIANT, TRUE, Reason.COMPLIANT, "Fair.", generation=1, now=NOON)
    changed = _ready(both, status=TRUE, reason=Reason.IN_SYNC, now=LATER)
    assert [condition.type for condition in changed] == [READY, COMPLIANT]
    assert changed[1] == both[1]


def test_transition_time_is_in_utc_without_fractions_of_a_second():
    in_paris = datetime(2026, 1, 31, 13, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    (ready,) = _ready(now=in_paris)
    assert ready.last_transition_time == NOON
    assert ready.last_transition_time.utcoffset() == timedelta(0)


def test_long_message_is_cut():
    (ready,) = _ready(message="x" * (MAX_MESSAGE + 1))
    assert len(ready.message) == MAX_MESSAGE
    assert ready.message.endswith("...")


def test_remove_condition_removes_the_condition():
    stalled = set_condition(_ready(), STALLED, TRUE, Reason.INFEASIBLE, "No.", generation=1, now=NOON)
    assert is_true(stalled, STALLED)
    assert remove_condition(stalled, STALLED) == _ready()
    assert not is_true(_ready(), STALLED)


def test_unknown_or_absent_condition_is_not_true():
    assert not is_true(_ready(status=UNKNOWN), READY)
    assert find_condition(_ready(), COMPLIANT) is None
