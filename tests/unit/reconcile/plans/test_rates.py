"""The rate of copies and the estimated end at that rate."""

from datetime import UTC, datetime, timedelta

from rackspan.reconcile.plans.reassignment_status import Rate

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def rate(*seen):
    found = Rate()
    for seconds, copied in seen:
        found.add(START + timedelta(seconds=seconds), copied)
    return found


def test_rate_and_end_are_unknown_before_the_second_sample():
    assert rate().per_second is None
    assert rate((0, 5)).per_second is None
    assert rate((0, 5)).end(10) is None


def test_rate_is_the_average_of_the_last_minute():
    assert rate((0, 0), (10, 100)).per_second == 10
    assert rate((0, 0), (60, 6000), (120, 6060)).per_second == 1
    assert rate((0, 0), (10, 100)).end(50) == START + timedelta(seconds=15)


def test_rate_of_zero_has_no_estimated_end():
    assert rate((0, 7), (30, 7)).per_second == 0
    assert rate((0, 7), (30, 7)).end(1) is None


def test_rate_restarts_if_the_clock_or_the_number_of_copied_bytes_goes_back():
    assert rate((10, 5), (0, 6)).per_second is None
    assert rate((0, 6), (10, 5)).per_second is None


def test_rate_excludes_the_time_of_a_pause():
    assert rate((0, 0), (10, 100), (86400, 100)).per_second is None
    assert rate((0, 0), (10, 100), (86400, 100), (86410, 200)).per_second == 10


def test_estimated_end_far_in_the_future_is_capped():
    assert rate((0, 0), (60, 60)).end(10**30).year < 2100
