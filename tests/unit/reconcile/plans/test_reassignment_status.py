"""The status of a Reassignment while it runs and after it has ended."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.passes import a_pass

from rackspan.api.reassignment import ProgressTexts, Reassignment, ReassignmentState, ReassignmentStatus
from rackspan.core.partitions import TopicPartition
from rackspan.core.reassignment.model import Waiting, WaitReason
from rackspan.core.reassignment.move_decision import Progress
from rackspan.reconcile.plans.reassignment_status import Rate, in_state, waits, with_pass

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
OBJECT = {
    "apiVersion": "rackspan.dev/v1alpha1",
    "kind": "Reassignment",
    "metadata": {"name": "main-0123456789abcdef", "namespace": "shop", "uid": "u", "generation": 1},
    "spec": {"topologyRef": {"name": "main"}, "planHash": "0123456789abcdef", "plan": "eJw="},
}
MOVING = ReassignmentStatus(rate=5, estimated_end=NOON, progress=ProgressTexts("1/3", "5 B/15 B", "5 B/s"))


@pytest.mark.parametrize("state", ReassignmentState)
def test_only_a_reassignment_that_has_not_ended_has_a_rate_and_an_estimated_end(state):
    status = in_state(Reassignment.from_object(OBJECT), MOVING, state, "why", NOON)
    assert (status.progress.moves, status.progress.bytes) == ("1/3", "5 B/15 B")
    rates = (status.rate, status.estimated_end, status.progress.rate)
    assert rates == ((None, None, None) if state.ended else (5, NOON, "5 B/s"))


@pytest.mark.parametrize(("unsized", "end"), [(0, NOON + timedelta(seconds=20)), (1, None)])
def test_end_is_estimated_only_if_the_sizes_of_all_remaining_copies_are_known(unsized, end):
    seen, rate = replace(a_pass(), progress=Progress(3, 1, 20, 10, unsized=unsized)), Rate()
    rate.add(NOON, 0)
    rate.add(NOON + timedelta(seconds=10), 10)
    status = with_pass(ReassignmentStatus(), seen, 3, rate, "its spec")
    assert status.estimated_end == end
    assert (status.bytes, status.progress.bytes) == ((None, "10 B/?") if unsized else (20, "10 B/20 B"))


def test_nothing_is_copied_and_no_end_is_estimated_while_all_wait():
    rate = Rate()
    rate.add(NOON, 0)
    rate.add(NOON + timedelta(seconds=10), 10)
    status = with_pass(ReassignmentStatus(), replace(a_pass(0), progress=Progress(3, 1, 20, 10)), 3, rate, "its spec")
    assert (status.rate, status.estimated_end, status.progress.rate) == (0, None, "0 B/s")


def test_message_lists_waiting_partitions_apart_from_those_given_up():
    some = [
        Waiting(TopicPartition("orders", 0), WaitReason.GONE),
        Waiting(TopicPartition("orders", 1), WaitReason.GONE),
        Waiting(TopicPartition("payments", 0), WaitReason.BROKER_OFFLINE, (3,)),
    ]
    waiting = "1 partition waits (BrokerOffline): payments-0 (broker 3)"
    given_up = "2 partitions given up (Gone), such as orders-0"
    assert waits(some) == f"{waiting}; {given_up}"
    assert (waits(some[2:]), waits(some[:2]), waits([])) == (waiting, given_up, "")
