"""Maintenance windows, by cron expressions in their time zones."""

from datetime import UTC, datetime, timedelta

import pytest

from rackspan.api.policies import MaintenanceWindow
from rackspan.reconcile.runtime.schedule import MaintenanceWindows, ScheduleError, duration_of


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def windows(*several):
    return MaintenanceWindows.parse([MaintenanceWindow(*one) for one in several])


def test_empty_list_of_windows_is_always_open():
    assert windows().is_open(at("2026-01-01T00:00"))
    assert windows().opens(at("2026-01-01T00:00")) is None


@pytest.mark.parametrize(
    ("moment", "is_open"),
    [
        ("2026-01-03T21:59:59", False),
        ("2026-01-03T22:00", True),
        ("2026-01-04T01:59:59", True),
        ("2026-01-04T02:00", False),
        ("2026-01-05T22:30", False),
    ],
)
def test_window_is_open_from_its_start_and_closed_at_its_end(moment, is_open):
    saturdays = windows(("0 22 * * SAT", "4h"))
    assert saturdays.is_open(at(moment)) is is_open


def test_several_windows_open_with_the_earliest_and_close_with_the_latest():
    several = windows(("0 22 * * SAT", "4h"), ("0 23 * * *", "30m"))
    assert several.opens(at("2026-01-02T00:00")) == at("2026-01-02T23:00")
    assert several.is_open(at("2026-01-04T01:59"))
    assert not several.is_open(at("2026-01-04T02:00"))


def test_window_follows_daylight_saving_of_its_time_zone():
    night = windows(("0 1 * * *", "2h", "Europe/Paris"))
    assert night.is_open(at("2026-01-10T00:30"))
    assert not night.is_open(at("2026-07-09T22:30"))
    assert night.is_open(at("2026-07-09T23:30"))


@pytest.mark.parametrize(("text", "lasts"), [("4h", 240), ("90m", 90), ("1h30m", 90), ("100h", 6000)])
def test_duration_is_parsed_from_hours_and_minutes(text, lasts):
    assert duration_of(text) == timedelta(minutes=lasts)


@pytest.mark.parametrize("text", ["", "0h", "4", "30m1h", "1d", "4h\n", "٤h", "-1h", "1h 30m"])
def test_invalid_duration_is_refused(text):
    with pytest.raises(ScheduleError):
        duration_of(text)


@pytest.mark.parametrize("window", [("0 0 30 2 *", "4h"), ("@daily", "4h", "Europe/Nowhere"), ("@daily", "soon")])
def test_invalid_window_is_refused(window):
    with pytest.raises(ScheduleError):
        windows(window)
