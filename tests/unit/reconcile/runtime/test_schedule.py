"""Cron expressions as in Kubernetes, in any time zone, with changes of daylight saving time."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.reconcile.scans.examples import at

from rackspan.reconcile.runtime.schedule import Schedule, ScheduleError


def times(expression, zone, start, number):
    schedule, moment, found = Schedule.parse(expression, zone), at(start), []
    for _ in range(number):
        moment = schedule.after(moment)
        found.append(moment.strftime("%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        ("0 3 * * *", None, "2026-01-31 02:59", ["01-31 03:00", "02-01 03:00"]),
        ("0 3 * * *", "Europe/Paris", "2026-01-31 02:59", ["02-01 02:00", "02-02 02:00"]),
        ("0 3 * * *", "Asia/Kolkata", "2026-01-30 21:00", ["01-30 21:30", "01-31 21:30"]),
        ("*/15 * * * *", None, "2026-01-31 03:00", ["01-31 03:15", "01-31 03:30"]),
        ("0 0 ? * mon", None, "2026-01-31 00:00", ["02-02 00:00", "02-09 00:00"]),
        ("@daily", None, "2026-01-31 00:00", ["02-01 00:00", "02-02 00:00"]),
        ("0 0 29 2 *", None, "2026-01-31 00:00", ["02-29 00:00"]),
    ],
)
def test_schedule_returns_its_next_times(expression, zone, start, expected):
    assert times(expression, zone, start, len(expected)) == expected


def test_time_skipped_when_clocks_go_forward_is_due_right_after():
    # In Paris on 29 March 2026 02:00 to 03:00 does not exist: 01:00 UTC is both ends of it.
    assert times("30 2 * * *", "Europe/Paris", "2026-03-28 00:00", 3) == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_time_repeated_when_clocks_go_back_counts_once():
    # In Paris on 25 October 2026 02:00 to 03:00 comes twice: from 00:00 and from 01:00 UTC.
    assert times("30 2 * * *", "Europe/Paris", "2026-10-24 12:00", 2) == ["10-25 00:30", "10-26 01:30"]


def test_interval_in_minutes_continues_while_clocks_go_back():
    autumn = times("*/30 * * * *", "Europe/Paris", "2026-10-24 23:30", 5)
    assert autumn == ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30", "10-25 02:00"]


@pytest.mark.parametrize(
    ("expression", "zone", "words"),
    [
        ("0 0 30 2 *", None, "day-of-month"),
        ("61 0 * * *", None, "minute"),
        ("0 3 * * *", "Europe/Pari", "no time zone 'Europe/Pari'"),
        ("0 3 * * *", "../../etc/passwd", "no time zone"),
        ("5-1 3 * * *", None, "minute"),
    ],
)
def test_invalid_schedule_or_time_zone_is_refused(expression, zone, words):
    with pytest.raises(ScheduleError, match=words):
        Schedule.parse(expression, zone)


def test_latest_time_includes_now_and_excludes_the_start():
    schedule = Schedule.parse("0 * * * *", None)
    assert schedule.latest(at("2026-01-31 01:00"), at("2026-01-31 03:00")) == at("2026-01-31 03:00")
    assert schedule.latest(at("2026-01-31 01:00"), at("2026-01-31 02:59")) == at("2026-01-31 02:00")
    assert schedule.latest(at("2026-01-31 03:00"), at("2026-01-31 03:59")) is None
    now = at("2026-01-31 03:00") + timedelta(microseconds=5)
    assert schedule.latest(at("2026-01-31 01:00"), now) == at("2026-01-31 03:00")
    assert schedule.count(at("2026-01-31 01:00"), at("2026-01-31 03:00"), 100) == 2
    assert schedule.count(at("2026-01-31 01:00"), at("2026-01-31 09:00"), 5) == 5


@given(
    minutes=st.integers(0, 60 * 24 * 400),
    expression=st.sampled_from(["30 2 * * *", "*/20 * * * *", "0 */6 * * *", "15 1,2,3 * * sun", "0 0 1 * *"]),
    zone=st.sampled_from([None, "Europe/Paris", "America/New_York", "Australia/Lord_Howe"]),
)
def test_latest_time_is_within_the_range_and_the_next_is_after_now(minutes, expression, zone):
    schedule, now = Schedule.parse(expression, zone), at("2026-01-01 00:00") + timedelta(minutes=minutes)
    since = now - timedelta(days=40)
    latest = schedule.latest(since, now)
    assert latest is not None
    assert since < latest <= now
    upcoming = schedule.after(now)
    assert upcoming > now
