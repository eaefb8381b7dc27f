"""What a scan reads from the previous one."""

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
def test_minutes_since_the_previous_scan_are_never_negative_and_at_most_one_day(tmp_path, passed, minutes):
    history = History(str(tmp_path))
    committed(history, "a")
    assert PreviousScan(history, "prod").minutes_until(NOON + timedelta(minutes=passed)) == minutes


def test_minutes_are_zero_before_the_first_scan(tmp_path):
    assert PreviousScan(History(str(tmp_path)), "prod").minutes_until(NOON) == 0
