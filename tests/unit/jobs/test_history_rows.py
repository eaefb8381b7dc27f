"""What a scan writes into the tables of its history."""

import pyarrow as pa

from rackspan.core.scanning import BrokerLocations
from rackspan.core.topology import BrokerLocation
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.scan import history_rows

COUNTED = pa.schema([field for field in TABLES["topics"] if field.name not in ("scan_id", "violation_minutes")])


def counted(**non_compliant):
    zeros = {field.name: 0 for field in COUNTED if pa.types.is_integer(field.type)}
    rows = [{**zeros, "topic": name, "non_compliant": number} for name, number in non_compliant.items()]
    return pa.Table.from_pylist(rows, schema=COUNTED)


def test_a_topic_that_was_out_of_compliance_gets_its_minutes_whatever_became_of_it():
    topics = history_rows.with_minutes(counted(fixed=0, broken=1, new=2), frozenset({"fixed", "broken", "gone"}), 7.5)
    rows = {row["topic"]: (row["non_compliant"], row["violation_minutes"]) for row in topics.to_pylist()}
    assert rows == {"fixed": (0, 7.5), "broken": (1, 7.5), "new": (2, 0.0), "gone": (0, 7.5)}
    assert {row["topic"] for row in history_rows.topics("a", topics).to_pylist()} == {"fixed", "broken", "gone"}
    still = history_rows.with_minutes(counted(fixed=0), frozenset({"gone"}), 0.0)
    assert history_rows.topics("a", still).to_pylist() == []


def test_a_broker_that_is_not_listed_any_more_is_offline():
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
