"""A broker's going and coming back is told once, together with others', and not while it only restarts."""

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


def test_a_rolling_restart_is_no_news():
    absence, at = BrokerEvents(), 0.0
    for broker in NINE:
        for _ in range(int(DEBOUNCE_SECONDS) // 5):
            assert told(absence, [broker], at) == []
            at += 5
    assert told(absence, [], at) == []


def test_a_broker_that_stays_away_is_told_once_and_so_is_its_return():
    absence = BrokerEvents()
    assert told(absence, [3], 0) == []
    assert told(absence, [3], DEBOUNCE_SECONDS) == [("BrokerOffline", "broker 3 has been offline for minutes", True)]
    assert told(absence, [3], 2 * DEBOUNCE_SECONDS) == []
    assert told(absence, [], 3 * DEBOUNCE_SECONDS) == [("BrokersOnline", "broker 3 is online again", False)]
    assert told(absence, [], 4 * DEBOUNCE_SECONDS) == []


def test_brokers_that_go_together_are_told_together():
    absence = BrokerEvents()
    told(absence, [3], 0)
    told(absence, [3, 4], 5)
    told(absence, [3, 4, 5], 10)
    (event,) = told(absence, [3, 4, 5], DEBOUNCE_SECONDS)
    assert event[1] == "brokers 3, 4, 5 have been offline for minutes"
    assert told(absence, [3, 4, 5], DEBOUNCE_SECONDS + 10) == []
    assert told(absence, [5], DEBOUNCE_SECONDS + 15) == [("BrokersOnline", "brokers 3, 4 are online again", False)]


def test_a_broker_that_is_taken_out_of_the_cluster_has_not_come_back():
    absence = BrokerEvents()
    told(absence, [9], 0)
    told(absence, [9], DEBOUNCE_SECONDS)
    assert told(absence, [], DEBOUNCE_SECONDS + 5) == []


def test_what_was_told_before_a_restart_of_the_operator_is_not_told_again():
    absence = BrokerEvents(announced=[3])
    assert told(absence, [3], 0) == told(absence, [3], 2 * DEBOUNCE_SECONDS) == []
    assert [reason for reason, *_ in told(absence, [], 3 * DEBOUNCE_SECONDS)] == ["BrokersOnline"]


@pytest.mark.parametrize("count", [100, 5000])
def test_an_event_names_a_hundred_brokers_at_most(count):
    absence = BrokerEvents()
    every = list(range(1000, 1000 + count))
    assert not list(absence.due_events(REF, (), every, 0))
    (event,) = absence.due_events(REF, (), every, DEBOUNCE_SECONDS)
    assert len(event.message) < 1000
