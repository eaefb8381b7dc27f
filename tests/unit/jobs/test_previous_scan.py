"""What a scan takes from the one before it."""

from datetime import timedelta

import pytest
from tests.unit.jobs.tables import NOON, committed

from rackspan.jobs.history.previous_scan import PreviousScan
from rackspan.jobs.history.scan_history import History

DAY = 60 * 24


@pytest.mark.parametrize(
    ("passed", "minutes"),
    [(0, 0), (7.5, 7.5), (10, 10), (-500, 0), (DAY, DAY), (DAY + 1, DAY), (9 * DAY, DAY), (4000 * DAY, DAY)],
)
def test_minutes_since_the_scan_before_are_a_day_s_at_most_and_none_where_the_clock_went_back(
    tmp_path, passed, minutes
):
    history = History(str(tmp_path))
    committed(history, "a")
    assert PreviousScan(history, "prod").minutes_until(NOON + timedelta(minutes=passed)) == minutes


def test_before_the_first_scan_no_time_has_passed(tmp_path):
    assert PreviousScan(History(str(tmp_path)), "prod").minutes_until(NOON) == 0
