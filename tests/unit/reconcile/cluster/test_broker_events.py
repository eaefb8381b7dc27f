"""One Event when brokers go offline and one when they return, grouped, and none during a restart."""

import pytest

from rackspan.api.meta import ObjectKey
from rackspan.reconcile.cluster.broker_events import DEBOUNCE_SECONDS, BrokerEvents
from rackspan.reconcile.ports import ObjectRef

REF = ObjectRef("RackTopology", ObjectKey("kafka", "prod"), "uid-1")
NINE = frozenset(range(9))


def told(absence, offline, at):
    return [
        (item.reason, item.message, item.warning) for item in absence.due_events(REF, NINE - {*offline}, offline, at)
    ]


def test_rolling_restart_has_no_event():
    absence, at = BrokerEvents(), 0.0
    for broker in NINE:
        for _ in range(int(DEBOUNCE_SECONDS) // 5):
            assert told(absence, [broker], at) == []
            at += 5
    assert told(absence, [], at) == []


def test_broker_that_stays_offline_has_one_event_and_its_return_another():
    absence = BrokerEvents()
    assert told(absence, [3], 0) == []
    assert told(absence, [3], DEBOUNCE_SECONDS) == [("BrokerOffline", "broker 3 has been offline for minutes", True)]
    assert told(absence, [3], 2 * DEBOUNCE_SECONDS) == []
    assert told(absence, [], 3 * DEBOUNCE_SECONDS) == [("BrokersOnline", "broker 3 is online again", False)]
    assert told(absence, [], 4 * DEBOUNCE_SECONDS) == []


def test_brokers_that_go_offline_together_share_one_event():
    absence = BrokerEvents()
    told(absence, [3], 0)
    told(absence, [3, 4], 5)
    told(absence, [3, 4, 5], 10)
    (event,) = told(absence, [3, 4, 5], DEBOUNCE_SECONDS)
    assert event[1] == "brokers 3, 4, 5 have been offline for minutes"
    assert told(absence, [3, 4, 5], DEBOUNCE_SECONDS + 10) == []
    assert told(absence, [5], DEBOUNCE_SECONDS + 15) == [("BrokersOnline", "brokers 3, 4 are online again", False)]


def test_removed_broker_has_no_online_event():
    absence = BrokerEvents()
    told(absence, [9], 0)
    told(absence, [9], DEBOUNCE_SECONDS)
    assert told(absence, [], DEBOUNCE_SECONDS + 5) == []


def test_brokers_announced_before_a_restart_of_the_operator_have_no_second_event():
    absence = BrokerEvents(announced=[3])
    assert told(absence, [3], 0) == told(absence, [3], 2 * DEBOUNCE_SECONDS) == []
    assert [reason for reason, *_ in told(absence, [], 3 * DEBOUNCE_SECONDS)] == ["BrokersOnline"]


@pytest.mark.parametrize("count", [100, 5000])
def test_event_about_many_brokers_is_shorter_than_1000_characters(count):
    absence = BrokerEvents()
    every = list(range(1000, 1000 + count))
    assert not list(absence.due_events(REF, (), every, 0))
    (event,) = absence.due_events(REF, (), every, DEBOUNCE_SECONDS)
    assert len(event.message) < 1000
