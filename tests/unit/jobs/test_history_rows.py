"""What a scan writes into the tables of its history."""

import pyarrow as pa

from rackspan.core.scanning import BrokerLocations
from rackspan.core.topology import BrokerLocation
from rackspan.jobs.scan import history_rows


def test_deleted_topics_get_violation_minutes_if_time_has_passed():
    rows = history_rows.gone_topics("a", pa.array(["gone"]), 7.5).to_pylist()
    assert [(row["scan_id"], row["topic"], row["partitions"], row["violation_minutes"]) for row in rows] == [
        ("a", "gone", 0, 7.5)
    ]
    assert len(history_rows.gone_topics("a", pa.array(["gone"]), 0.0)) == 0


def test_broker_that_is_no_longer_listed_is_offline():
    locations = BrokerLocations(("zone",), tuple(BrokerLocation(broker, rack=("a",)) for broker in (1, 2, 3)))
    before = {1: True, 2: False, 8: True, 9: False}
    rows = history_rows.brokers("a", locations, before).to_pylist()
    assert {row["broker"]: (row["online"], row["changed"]) for row in rows} == {
        1: (True, False),
        2: (True, True),
        3: (True, False),
        8: (False, True),
        9: (False, False),
    }
