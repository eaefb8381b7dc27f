"""Which scans are due, by a clock that the test sets: schedules, requests, changes, overlaps and timeouts."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs
from tests.unit.reconcile.scans.examples import at, failed, run, succeeded, topology

from rackspan.api.racktopology import LastScan, ScansStatus, ScanState, ScanTrigger
from rackspan.reconcile.scans.scan_decision import TopologyChange, decide, fingerprint

NEVER = ScansStatus()
NIGHTLY = "0 3 * * *"


def scans(last="2026-01-30 03:00", schedule=f"{NIGHTLY} UTC", **fields):
    return ScansStatus(schedule=schedule, last_scheduled_at=at(last), **fields)


def decided(now, *, known=None, runs=(), last=None, change=None, request=None, active_for=None, **compliance):
    """Decide. The operator has observed each scan since its creation, unless `active_for` says otherwise."""
    compliance.setdefault("schedule", NIGHTLY)
    of = topology(request, **{key: value for key, value in compliance.items() if value is not None})
    if active_for is None:
        active_for = {run.uid: at(now) - run.created for run in runs}
    return decide(of, scans() if known is None else known, last, runs, at(now), change, active_for, {})


# --- the schedule ----------------------------------------------------------------------------------------------------


def test_scheduled_scan_does_not_start_before_its_time():
    decision = decided("2026-01-31 02:59")
    assert decision.start is None
    assert decision.requeue_at == decision.scans.next_at == at("2026-01-31 03:00")


def test_scheduled_scan_starts_at_its_time():
    decision = decided("2026-01-31 03:00")
    assert decision.start.trigger is ScanTrigger.SCHEDULE
    assert decision.start.cause == "2026-01-31T03:00:00Z"
    assert decision.scans_if_started.last_scheduled_at == at("2026-01-31 03:00")
    assert decision.scans_if_started.next_at == at("2026-02-01 03:00")
    assert decision.scans.last_scheduled_at == at("2026-01-30 03:00"), (
        "the scan is still due if it could not be started"
    )


@pytest.mark.parametrize("runs", [(), (run("scan-0", "2026-01-30 03:00"),)], ids=["refused", "one runs still"])
def test_scheduled_scan_that_is_not_started_stays_the_next_one(runs):
    decision = decided("2026-02-02 03:30", runs=runs, active_for={}, concurrencyPolicy="Forbid")
    assert decision.scans.next_at == at("2026-01-31 03:00"), "an alert compares it with the time now"
    assert decision.scans_if_started.next_at == (at("2026-01-31 03:00") if runs else at("2026-02-03 03:00"))
    assert decision.requeue_at > at("2026-02-02 03:30")


def test_name_of_a_scan_depends_on_its_scheduled_time_only():
    names = {decided(now).start.name for now in ("2026-01-31 03:00", "2026-01-31 03:07")}
    assert len(names) == 1
    assert decided("2026-02-01 03:00").start.name not in names


def test_name_of_a_scan_is_short_enough_for_the_suffix_of_pods():
    long = decide(
        topology(name="p." * 120 + "x", schedule=NIGHTLY), scans(), None, (), at("2026-01-31 03:00"), None, {}, {}
    )
    assert len(long.start.name) <= 50
    assert long.start.name.replace("-", "").isalnum()


def test_two_topologies_of_the_same_name_have_different_scan_names():
    here = topology(schedule=NIGHTLY)
    there = structs.replace(here, meta=structs.replace(here.meta, namespace="other"))
    names = {decide(of, scans(), None, (), at("2026-01-31 03:00"), None, {}, {}).start.name for of in (here, there)}
    assert len(names) == 2


def test_started_scan_is_not_started_again_if_the_status_was_not_written():
    decision = decided("2026-01-31 03:01", runs=[run(created="2026-01-31 03:00")])
    assert decision.start is None
    assert decision.scans.last_scheduled_at == at("2026-01-31 03:00")
    assert decision.scans.running == 1


def test_only_the_latest_of_many_missed_times_is_caught_up():
    decision = decided("2026-01-31 12:00", known=scans("2026-01-20 03:00"))
    assert decision.start.cause == "2026-01-31T03:00:00Z"


def test_time_within_the_starting_deadline_is_caught_up():
    decision = decided("2026-01-31 03:09", startingDeadlineSeconds=600)
    assert decision.start is not None
    assert decision.scans_if_started.missed is None


def test_time_beyond_the_starting_deadline_is_counted_as_missed():
    decision = decided("2026-01-31 03:11", known=scans("2026-01-28 03:00"), startingDeadlineSeconds=600)
    assert decision.start is None
    assert decision.scans.missed == 3
    assert decision.scans.last_scheduled_at == at("2026-01-31 03:00")
    assert decision.scans.next_at == at("2026-02-01 03:00")
    later = decided("2026-02-01 03:00", known=decision.scans, startingDeadlineSeconds=600)
    assert later.start is not None
    assert later.scans_if_started.missed is None


def test_new_schedule_does_not_catch_up_earlier_times():
    assert decided("2026-01-31 12:00", known=NEVER).start is None
    assert decided("2026-01-31 12:00", known=NEVER).scans.last_scheduled_at == at("2026-01-31 12:00")
    other = decided("2026-01-31 12:00", known=scans("2026-01-29 03:00"), schedule="0 9 * * *")
    assert other.start is None
    assert other.scans.next_at == at("2026-02-01 09:00")


def test_resumed_schedule_does_not_catch_up_times_of_the_suspension():
    suspended = decided("2026-01-31 03:00", suspend=True)
    assert suspended.start is None
    assert suspended.scans.schedule is None
    resumed = decided("2026-02-02 12:00", known=suspended.scans)
    assert resumed.start is None
    assert resumed.requeue_at == at("2026-02-03 03:00")


def test_schedule_uses_its_time_zone():
    known = scans("2026-03-28 01:30", schedule="30 2 * * * Europe/Paris")
    decision = decided("2026-03-29 01:00", known=known, schedule="30 2 * * *", timeZone="Europe/Paris")
    assert decision.start.cause == "2026-03-29T01:00:00Z", "02:30 does not exist that day and is caught up at once"


def test_schedule_without_any_time_is_invalid_and_does_not_block_requests():
    decision = decided("2026-01-31 03:00", schedule="0 0 30 2 *", request="now")
    assert decision.failure.reason == "InvalidSchedule"
    assert decision.start.trigger is ScanTrigger.REQUEST


def test_clock_that_was_set_back_does_not_stop_scheduled_scans():
    decision = decided("2026-01-31 12:00", known=scans("2027-01-31 03:00"))
    assert decision.start is None
    assert decision.requeue_at == at("2026-02-01 03:00")
    assert decided("2026-02-01 03:00", known=decision.scans).start is not None


def test_clock_that_is_seconds_off_does_not_start_a_scan_twice():
    just_before = at("2026-01-31 03:00") - timedelta(seconds=20)
    decision = decide(topology(schedule=NIGHTLY), scans("2026-01-31 03:00"), None, (), just_before, None, {}, {})
    assert decision.start is None
    assert decision.scans.last_scheduled_at == at("2026-01-31 03:00")
    assert (
        decide(topology(schedule=NIGHTLY), decision.scans, None, (), at("2026-01-31 03:00"), None, {}, {}).start is None
    )


def test_clock_that_jumps_ahead_starts_one_scan():
    decision = decided("2027-06-01 12:00", known=scans("2026-01-30 03:00"))
    assert decision.start.cause == "2027-06-01T03:00:00Z"
    assert decided("2027-06-01 12:00", known=decision.scans_if_started).start is None


# --- overlapping scans -----------------------------------------------------------------------------------------------

YESTERDAY = run("yesterday", "2026-01-31 02:30")
LONG = {"activeDeadlineSeconds": 86_400}


def test_policy_forbid_makes_a_scan_wait_for_the_running_one():
    decision = decided("2026-01-31 03:00", runs=[YESTERDAY], **LONG)
    assert (decision.start, decision.delete) == (None, ())
    done = decided("2026-01-31 03:10", known=decision.scans, runs=[succeeded(YESTERDAY, 35)], **LONG)
    assert done.start.cause == "2026-01-31T03:00:00Z"


def test_policy_forbid_makes_a_scan_wait_for_one_whose_trigger_only_a_newer_version_knows():
    decision = decided("2026-01-31 03:00", runs=[replace(YESTERDAY, trigger=None)], request="a", **LONG)
    assert (decision.start, decision.scans.running, decision.scans.handled_request) == (None, 1, None)


def test_policy_forbid_counts_a_scan_that_waited_too_long_as_missed():
    decision = decided("2026-01-31 03:11", runs=[YESTERDAY], startingDeadlineSeconds=600, **LONG)
    assert (decision.start, decision.scans.missed) == (None, 1)


def test_policy_allow_starts_a_scan_while_another_runs():
    decision = decided("2026-01-31 03:00", runs=[YESTERDAY], concurrencyPolicy="Allow", **LONG)
    assert decision.start is not None
    assert decision.delete == ()
    assert decision.scans_if_started.running == 2


def test_policy_replace_replaces_the_running_scan():
    decision = decided("2026-01-31 03:00", runs=[YESTERDAY], concurrencyPolicy="Replace", **LONG)
    assert decision.start is not None
    assert (decision.replaced, decision.delete) == ((YESTERDAY,), ())
    assert decision.scans_if_started.running == 1


def test_scan_that_is_being_deleted_does_not_block_the_next():
    decision = decided("2026-01-31 03:00", runs=[replace(YESTERDAY, deleting=True)])
    assert decision.start is not None
    assert decision.delete == ()


def test_overdue_scan_is_deleted_and_does_not_block_the_next():
    stuck = run("stuck", "2026-01-31 01:58")
    decision = decided("2026-01-31 03:00", runs=[stuck])
    assert decision.overdue == (stuck,)
    assert decision.delete == (stuck,)
    assert decision.start is not None


@pytest.mark.parametrize("now", ["2026-01-31 04:02", "2026-02-03 03:00", "2026-01-28 03:00"])
def test_scan_is_overdue_by_the_time_that_it_was_observed_and_not_by_a_clock(now):
    seen = run(created="2026-01-31 03:00")
    for passed, overdue in ((timedelta(seconds=3660), ()), (timedelta(seconds=3661), (seen,))):
        decision = decided(now, runs=[seen], active_for={seen.uid: passed})
        assert decision.overdue == overdue
    assert decided(now, runs=[seen], active_for={}).overdue == ()


def test_deadline_recorded_with_a_scan_takes_precedence_over_the_spec():
    own = run("slow", "2026-01-31 01:00", deadline=timedelta(hours=2))
    assert decided("2026-01-31 03:01", runs=[own]).overdue == ()
    assert decided("2026-01-31 03:02", runs=[own], activeDeadlineSeconds=86_400).overdue == (own,)


def test_running_scan_is_checked_again_after_its_deadline():
    decision = decided("2026-01-31 03:00", runs=[run(created="2026-01-31 02:59")], schedule="0 9 * * *")
    assert decision.overdue == ()
    assert decision.requeue_at == at("2026-01-31 04:00") + timedelta(seconds=1)


def test_failed_scan_does_not_block_the_next():
    decision = decided("2026-01-31 03:00", runs=[failed(run(created="2026-01-30 03:00"))])
    assert decision.start is not None


def test_finished_scans_beyond_the_history_limits_are_deleted():
    good = [succeeded(run(f"good-{day}", f"2026-01-{day} 03:00")) for day in range(20, 26)]
    bad = [failed(run(f"bad-{day}", f"2026-01-{day} 09:00")) for day in range(20, 23)]
    decision = decided("2026-01-31 02:00", runs=[*good, *bad])
    assert {one.name for one in decision.delete} == {"good-20", "good-21", "good-22", "bad-20", "bad-21"}
    limits = {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 3}
    assert {one.name for one in decided("2026-01-31 02:00", runs=[*good, *bad], **limits).delete} == {
        one.name for one in good
    }


# --- on demand -------------------------------------------------------------------------------------------------------


def test_annotation_starts_one_scan_for_each_new_value():
    first = decided("2026-01-31 12:00", request="a", schedule=None, known=NEVER)
    assert (first.start.trigger, first.start.cause) == (ScanTrigger.REQUEST, "a")
    assert first.scans_if_started.handled_request == "a"
    assert decided("2026-01-31 12:05", request="a", schedule=None, known=first.scans_if_started).start is None
    assert decided("2026-01-31 12:05", request="b", schedule=None, known=first.scans_if_started).start.cause == "b"


def test_earlier_value_of_the_annotation_is_a_new_request_if_set_again():
    earlier = succeeded(run("scan-r1", "2026-01-31 10:00", ScanTrigger.REQUEST, "a"))
    last = LastScan("scan-r2", ScanTrigger.REQUEST, ScanState.COMPLETED, at("2026-01-31 11:00"))
    known = ScansStatus(handled_request="b")
    decision = decided("2026-01-31 12:00", request="a", known=known, runs=[earlier], last=last, schedule=None)
    assert decision.start is not None
    assert decision.start.name != earlier.name


def test_request_is_recovered_from_its_scan_if_the_status_was_not_written():
    made = run("scan-r1", "2026-01-31 12:00", ScanTrigger.REQUEST, "a")
    decision = decided("2026-01-31 12:01", request="a", known=NEVER, runs=[made], schedule=None)
    assert decision.start is None
    assert decision.scans.handled_request == "a"


def test_each_request_starts_one_scan_even_if_the_clock_was_set_back():
    ahead = succeeded(run("scan-a", "2026-01-31 13:00", ScanTrigger.REQUEST, "a"))
    older = succeeded(run("scan-0", "2026-01-31 11:00", ScanTrigger.REQUEST, "0"))
    made = run("scan-b", "2026-01-31 12:00", ScanTrigger.REQUEST, "b")
    last = LastScan("scan-a", ScanTrigger.REQUEST, ScanState.COMPLETED, ahead.created)
    known = ScansStatus(handled_request="a")
    same = decided("2026-01-31 12:00", request="a", known=known, runs=[older, ahead], last=last, schedule=None)
    assert (same.start, same.scans.handled_request) == (None, "a")
    lost = decided("2026-01-31 12:01", request="b", known=known, runs=[older, ahead, made], last=last, schedule=None)
    assert (lost.start, lost.scans.handled_request) == (None, "b"), "the status was not written"
    last = LastScan("scan-b", ScanTrigger.REQUEST, ScanState.RUNNING, made.created)
    known = ScansStatus(handled_request="b")
    later = decided("2026-01-31 12:02", request="b", known=known, runs=[older, ahead, made], last=last, schedule=None)
    assert (later.start, later.scans.handled_request) == (None, "b"), "an earlier request is not the last one"


def test_request_starts_a_scan_while_scans_are_suspended():
    assert decided("2026-01-31 12:00", request="a", suspend=True).start is not None


def test_request_and_schedule_at_the_same_time_start_one_scan():
    decision = decided("2026-01-31 03:00", request="a")
    assert decision.start.trigger is ScanTrigger.REQUEST
    assert decided("2026-01-31 03:01", request="a", known=decision.scans_if_started).start is None


def test_request_waits_for_the_running_scan():
    waiting = decided("2026-01-31 12:00", request="a", runs=[run(created="2026-01-31 11:59")], schedule=None)
    assert waiting.start is None
    assert waiting.scans.handled_request is None


# --- after a change --------------------------------------------------------------------------------------------------


def changed_at(moment, mark="f1"):
    return TopologyChange(mark, at(moment))


ON_CHANGE = {"afterTopologyChange": True, "schedule": None}


def test_topology_change_starts_a_scan_after_it_has_been_stable_for_a_minute():
    early = decided("2026-01-31 12:00", known=NEVER, change=changed_at("2026-01-31 12:00"), **ON_CHANGE)
    assert early.start is None
    assert early.requeue_at == at("2026-01-31 12:01")
    due = decided("2026-01-31 12:01", known=NEVER, change=changed_at("2026-01-31 12:00"), **ON_CHANGE)
    assert due.start.trigger is ScanTrigger.TOPOLOGY_CHANGE
    assert due.scans_if_started.handled_topology == "f1"
    again = decided("2026-01-31 13:00", known=due.scans_if_started, change=changed_at("2026-01-31 12:00"), **ON_CHANGE)
    assert again.start is None


def test_topology_change_that_is_reverted_and_repeated_is_scanned_each_time():
    names = set()
    known = NEVER
    for hour, mark in ((12, "f1"), (13, "f2"), (14, "f1"), (15, "f2")):
        decision = decided(
            f"2026-01-31 {hour}:30", known=known, change=changed_at(f"2026-01-31 {hour}:00", mark), **ON_CHANGE
        )
        names.add(decision.start.name)
        known = decision.scans_if_started
    assert len(names) == 4


@pytest.mark.parametrize("compliance", [{"schedule": None}, {**ON_CHANGE, "suspend": True}])
def test_topology_change_starts_no_scan_if_not_requested_or_suspended(compliance):
    decision = decided("2026-01-31 12:30", known=NEVER, change=changed_at("2026-01-31 12:00"), **compliance)
    assert decision.start is None


def test_fingerprint_depends_only_on_inputs_of_the_assessment():
    before = fingerprint(topology())
    assert before == fingerprint(topology(schedule=NIGHTLY)), "scan settings alone do not start a scan"
    assert before != fingerprint(topology(racks=("/eu/a", "/eu/c")))
    assert before != fingerprint(topology(racks=("/eu/a",)))
    of = topology()
    assert before != fingerprint(structs.replace(of, spec=structs.replace(of.spec, drain_brokers=(1,))))
    assert fingerprint(structs.replace(of, meta=structs.replace(of.meta, generation=2))) is None, "not reconciled yet"
    stale = structs.replace(of, status=structs.replace(of.status, rack_hash="of another spec"))
    assert fingerprint(stale) is None, "the racks are of an earlier spec"
