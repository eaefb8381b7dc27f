"""Metrics of the Reassignments of a topology."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from prometheus_client import REGISTRY
from tests.unit.reconcile.plans.test_reassignment_status import NOON, OBJECT

from rackspan.api.reassignment import Reassignment, ReassignmentState, ReassignmentStatus, WaitingFor, WaitingStatus
from rackspan.metrics import forget_topology, serve_topology
from rackspan.reconcile.plans.reassignment_status import measure

TOPOLOGY = "shop/gauges"


def reassignment(state, **status):
    return replace(Reassignment.from_object(OBJECT), status=ReassignmentStatus(state=state, **status))


def sample(name, **labels):
    return REGISTRY.get_sample_value(f"rackspan_reassignment{name}", {"topology": TOPOLOGY, **labels})


@pytest.fixture(autouse=True)
def _served():
    serve_topology(TOPOLOGY)
    yield
    forget_topology(TOPOLOGY)


def test_reassignment_that_ended_in_a_state_of_a_newer_version_counts_as_none_that_waits():
    measure(TOPOLOGY, [reassignment(None, finished_at=NOON), reassignment(None)])
    assert sample("s", state="Queued") == 1


@pytest.mark.parametrize("set_back", [timedelta(0), timedelta(days=1)])
def test_metrics_are_those_of_the_plan_created_last_although_the_clock_was_set_back(set_back):
    def created(at, moves, started):
        one = reassignment(ReassignmentState.SUCCEEDED, started_at=started, finished_at=started, moves=moves)
        return replace(one, meta=replace(one.meta, creation_timestamp=at))

    later = NOON + timedelta(hours=1)
    measure(TOPOLOGY, [created(later, 2, later - set_back), created(NOON, 1, NOON)])
    assert sample("_moves") == 2


def test_metrics_of_a_deleted_reassignment_are_removed_if_the_other_one_never_started():
    waiting = WaitingStatus(4, reasons=(WaitingFor("Copying", 4),))
    began = reassignment(ReassignmentState.RUNNING, started_at=NOON, moves=9, waiting=waiting)
    never = reassignment(ReassignmentState.CANCELLED)
    measure(TOPOLOGY, [began, never])
    assert (sample("_moves"), sample("_waiting_partitions", reason="Copying")) == (9, 4)
    measure(TOPOLOGY, [never])
    assert (sample("_moves"), sample("_waiting_partitions", reason="Copying")) == (None, None)
    assert (sample("s", state="Cancelled"), sample("s", state="Running"), sample("_throttles")) == (1, 0, 0)


def test_sizes_and_rates_that_are_not_known_have_no_series():
    measure(TOPOLOGY, [reassignment(ReassignmentState.RUNNING, started_at=NOON, moves=9, bytes=90, rate=3)])
    assert (sample("_moves"), sample("_bytes"), sample("_bytes_per_second")) == (9, 90, 3)
    measure(TOPOLOGY, [reassignment(ReassignmentState.RUNNING, started_at=NOON)])
    assert (sample("_moves"), sample("_bytes"), sample("_bytes_per_second")) == (None, None, None)
    assert (sample("_moves_done"), sample("_copied_bytes")) == (0, 0), "an alert compares them over time"


def test_counts_are_0_before_the_first_reassignment_of_a_topology_and_absent_without_its_loop():
    measure(TOPOLOGY, [])
    assert (sample("s", state="Failed"), sample("s", state="Stopped"), sample("_throttles")) == (0, 0, 0)
    assert sample("_moves_done") is None
    forget_topology(TOPOLOGY)
    measure(TOPOLOGY, [reassignment(ReassignmentState.RUNNING, started_at=NOON, moves=9)])
    assert (sample("s", state="Running"), sample("_moves"), sample("_throttles")) == (None, None, None)
