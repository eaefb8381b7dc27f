"""How fast copies go, and when they end at that rate."""

from datetime import UTC, datetime, timedelta

from rackspan.reconcile.plans.reassignment_status import Rate

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def rate(*seen):
    found = Rate()
    for seconds, copied in seen:
        found.add(START + timedelta(seconds=seconds), copied)
    return found


def test_nothing_is_said_before_there_are_two_looks():
    assert rate().per_second is None
    assert rate((0, 5)).per_second is None
    assert rate((0, 5)).end(10) is None


def test_it_is_that_of_the_last_minute():
    assert rate((0, 0), (10, 100)).per_second == 10
    assert rate((0, 0), (60, 6000), (120, 6060)).per_second == 1
    assert rate((0, 0), (10, 100)).end(50) == START + timedelta(seconds=15)


def test_what_stands_still_has_no_end():
    assert rate((0, 7), (30, 7)).per_second == 0
    assert rate((0, 7), (30, 7)).end(1) is None


def test_a_clock_that_was_set_back_or_copies_that_were_taken_back_begin_anew():
    assert rate((10, 5), (0, 6)).per_second is None
    assert rate((0, 6), (10, 5)).per_second is None


def test_it_does_not_count_the_time_of_a_pause():
    assert rate((0, 0), (10, 100), (86400, 100)).per_second is None
    assert rate((0, 0), (10, 100), (86400, 100), (86410, 200)).per_second == 10


def test_an_end_that_is_beyond_all_calendars_is_cut():
    assert rate((0, 0), (60, 60)).end(10**30).year < 2100
