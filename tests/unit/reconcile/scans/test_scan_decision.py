"""What is due, by a clock that the test sets: schedules, requests, changes, what overlaps, what never ends."""

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


def decided(now, *, known=None, runs=(), last=None, change=None, request=None, **compliance):
    compliance.setdefault("schedule", NIGHTLY)
    of = topology(request, **{key: value for key, value in compliance.items() if value is not None})
    return decide(of, scans() if known is None else known, last, runs, at(now), change, {})


# --- the schedule ----------------------------------------------------------------------------------------------------


def test_a_scan_waits_for_its_time():
    decision = decided("2026-01-31 02:59")
    assert decision.start is None
    assert decision.requeue_at == decision.scans.next_at == at("2026-01-31 03:00")


def test_a_scan_starts_at_its_time():
    decision = decided("2026-01-31 03:00")
    assert decision.start.trigger is ScanTrigger.SCHEDULE
    assert decision.start.cause == "2026-01-31T03:00:00Z"
    assert decision.scans_if_started.last_scheduled_at == at("2026-01-31 03:00")
    assert decision.scans_if_started.next_at == at("2026-02-01 03:00")
    assert decision.scans.last_scheduled_at == at("2026-01-30 03:00"), "unless it was started, it is still due"


def test_a_scan_has_the_same_name_whoever_starts_it_and_when():
    names = {decided(now).start.name for now in ("2026-01-31 03:00", "2026-01-31 03:07")}
    assert len(names) == 1
    assert decided("2026-02-01 03:00").start.name not in names


def test_names_leave_room_for_what_pods_append():
    long = decide(
        topology(name="p." * 120 + "x", schedule=NIGHTLY), scans(), None, (), at("2026-01-31 03:00"), None, {}
    )
    assert len(long.start.name) <= 50
    assert long.start.name.replace("-", "").isalnum()


def test_two_topologies_of_one_name_have_scans_of_their_own():
    here = topology(schedule=NIGHTLY)
    there = structs.replace(here, meta=structs.replace(here.meta, namespace="other"))
    names = {decide(of, scans(), None, (), at("2026-01-31 03:00"), None, {}).start.name for of in (here, there)}
    assert len(names) == 2


def test_what_was_started_is_not_started_again_when_it_could_not_be_written_down():
    decision = decided("2026-01-31 03:01", runs=[run(created="2026-01-31 03:00")])
    assert decision.start is None
    assert decision.scans.last_scheduled_at == at("2026-01-31 03:00")
    assert decision.scans.running == 1


def test_only_the_latest_of_many_missed_times_is_made_up_for():
    decision = decided("2026-01-31 12:00", known=scans("2026-01-20 03:00"))
    assert decision.start.cause == "2026-01-31T03:00:00Z"


def test_a_time_within_the_starting_deadline_is_made_up_for():
    decision = decided("2026-01-31 03:09", startingDeadlineSeconds=600)
    assert decision.start is not None
    assert decision.scans_if_started.missed is None


def test_a_time_beyond_the_starting_deadline_is_missed_and_counted():
    decision = decided("2026-01-31 03:11", known=scans("2026-01-28 03:00"), startingDeadlineSeconds=600)
    assert decision.start is None
    assert decision.scans.missed == 3
    assert decision.scans.last_scheduled_at == at("2026-01-31 03:00")
    assert decision.scans.next_at == at("2026-02-01 03:00")
    later = decided("2026-02-01 03:00", known=decision.scans, startingDeadlineSeconds=600)
    assert later.start is not None
    assert later.scans_if_started.missed is None


def test_a_new_schedule_owes_nothing_for_the_time_before():
    assert decided("2026-01-31 12:00", known=NEVER).start is None
    assert decided("2026-01-31 12:00", known=NEVER).scans.last_scheduled_at == at("2026-01-31 12:00")
    other = decided("2026-01-31 12:00", known=scans("2026-01-29 03:00"), schedule="0 9 * * *")
    assert other.start is None
    assert other.scans.next_at == at("2026-02-01 09:00")


def test_a_schedule_that_was_suspended_owes_nothing_either():
    suspended = decided("2026-01-31 03:00", suspend=True)
    assert suspended.start is None
    assert suspended.scans.schedule is None
    resumed = decided("2026-02-02 12:00", known=suspended.scans)
    assert resumed.start is None
    assert resumed.requeue_at == at("2026-02-03 03:00")


def test_a_schedule_follows_its_time_zone():
    known = scans("2026-03-28 01:30", schedule="30 2 * * * Europe/Paris")
    decision = decided("2026-03-29 01:00", known=known, schedule="30 2 * * *", timeZone="Europe/Paris")
    assert decision.start.cause == "2026-03-29T01:00:00Z", "02:30 does not exist that day, and is made up for at once"


def test_a_schedule_that_never_comes_stops_nothing_but_itself():
    decision = decided("2026-01-31 03:00", schedule="0 0 30 2 *", request="now")
    assert decision.failure.reason == "InvalidSchedule"
    assert decision.start.trigger is ScanTrigger.REQUEST


def test_a_clock_that_was_put_back_does_not_stop_scans_until_it_has_caught_up():
    decision = decided("2026-01-31 12:00", known=scans("2027-01-31 03:00"))
    assert decision.start is None
    assert decision.requeue_at == at("2026-02-01 03:00")
    assert decided("2026-02-01 03:00", known=decision.scans).start is not None


def test_a_clock_that_errs_by_seconds_starts_no_scan_twice():
    just_before = at("2026-01-31 03:00") - timedelta(seconds=20)
    decision = decide(topology(schedule=NIGHTLY), scans("2026-01-31 03:00"), None, (), just_before, None, {})
    assert decision.start is None
    assert decision.scans.last_scheduled_at == at("2026-01-31 03:00")
    assert decide(topology(schedule=NIGHTLY), decision.scans, None, (), at("2026-01-31 03:00"), None, {}).start is None


def test_a_clock_that_jumps_ahead_starts_one_scan():
    decision = decided("2027-06-01 12:00", known=scans("2026-01-30 03:00"))
    assert decision.start.cause == "2027-06-01T03:00:00Z"
    assert decided("2027-06-01 12:00", known=decision.scans_if_started).start is None


# --- what overlaps ---------------------------------------------------------------------------------------------------

YESTERDAY = run("yesterday", "2026-01-31 02:30")
LONG = {"activeDeadlineSeconds": 86_400}


def test_under_forbid_a_scan_waits_for_the_one_that_runs():
    decision = decided("2026-01-31 03:00", runs=[YESTERDAY], **LONG)
    assert (decision.start, decision.delete) == (None, ())
    done = decided("2026-01-31 03:10", known=decision.scans, runs=[succeeded(YESTERDAY, 35)], **LONG)
    assert done.start.cause == "2026-01-31T03:00:00Z"


def test_under_forbid_a_scan_that_waited_too_long_is_missed():
    decision = decided("2026-01-31 03:11", runs=[YESTERDAY], startingDeadlineSeconds=600, **LONG)
    assert (decision.start, decision.scans.missed) == (None, 1)


def test_under_allow_a_scan_starts_beside_the_one_that_runs():
    decision = decided("2026-01-31 03:00", runs=[YESTERDAY], concurrencyPolicy="Allow", **LONG)
    assert decision.start is not None
    assert decision.delete == ()
    assert decision.scans_if_started.running == 2


def test_under_replace_a_scan_ends_the_one_that_runs():
    decision = decided("2026-01-31 03:00", runs=[YESTERDAY], concurrencyPolicy="Replace", **LONG)
    assert decision.start is not None
    assert (decision.replaced, decision.delete) == ((YESTERDAY,), ())
    assert decision.scans_if_started.running == 1


def test_a_scan_that_is_being_deleted_is_in_nobodys_way():
    decision = decided("2026-01-31 03:00", runs=[replace(YESTERDAY, deleting=True)])
    assert decision.start is not None
    assert decision.delete == ()


def test_a_scan_that_never_ends_is_ended_and_does_not_stop_the_next():
    stuck = run("stuck", "2026-01-31 01:58")
    decision = decided("2026-01-31 03:00", runs=[stuck])
    assert decision.overdue == (stuck,)
    assert decision.delete == (stuck,)
    assert decision.start is not None


def test_the_deadline_of_a_scan_is_its_own():
    own = run("slow", "2026-01-31 01:00", deadline=timedelta(hours=2))
    assert decided("2026-01-31 03:01", runs=[own]).overdue == ()
    assert decided("2026-01-31 03:02", runs=[own], activeDeadlineSeconds=86_400).overdue == (own,)


def test_a_scan_that_takes_its_time_is_looked_at_when_its_deadline_has_passed():
    decision = decided("2026-01-31 03:00", runs=[run(created="2026-01-31 02:59")], schedule="0 9 * * *")
    assert decision.overdue == ()
    assert decision.requeue_at == at("2026-01-31 04:00") + timedelta(seconds=1)


def test_a_failed_scan_does_not_stop_the_next():
    decision = decided("2026-01-31 03:00", runs=[failed(run(created="2026-01-30 03:00"))])
    assert decision.start is not None


def test_the_latest_scans_stay_for_people_to_look_at():
    good = [succeeded(run(f"good-{day}", f"2026-01-{day} 03:00")) for day in range(20, 26)]
    bad = [failed(run(f"bad-{day}", f"2026-01-{day} 09:00")) for day in range(20, 23)]
    decision = decided("2026-01-31 02:00", runs=[*good, *bad])
    assert {one.name for one in decision.delete} == {"good-20", "good-21", "good-22", "bad-20", "bad-21"}
    limits = {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 3}
    assert {one.name for one in decided("2026-01-31 02:00", runs=[*good, *bad], **limits).delete} == {
        one.name for one in good
    }


# --- on demand -------------------------------------------------------------------------------------------------------


def test_the_annotation_starts_one_scan_for_each_of_its_values():
    first = decided("2026-01-31 12:00", request="a", schedule=None, known=NEVER)
    assert (first.start.trigger, first.start.cause) == (ScanTrigger.REQUEST, "a")
    assert first.scans_if_started.handled_request == "a"
    assert decided("2026-01-31 12:05", request="a", schedule=None, known=first.scans_if_started).start is None
    assert decided("2026-01-31 12:05", request="b", schedule=None, known=first.scans_if_started).start.cause == "b"


def test_an_earlier_value_that_comes_again_is_a_new_request():
    earlier = succeeded(run("scan-r1", "2026-01-31 10:00", ScanTrigger.REQUEST, "a"))
    last = LastScan("scan-r2", ScanTrigger.REQUEST, ScanState.COMPLETED, at("2026-01-31 11:00"))
    known = ScansStatus(handled_request="b")
    decision = decided("2026-01-31 12:00", request="a", known=known, runs=[earlier], last=last, schedule=None)
    assert decision.start is not None
    assert decision.start.name != earlier.name


def test_a_request_is_remembered_by_its_scan_when_it_could_not_be_written_down():
    made = run("scan-r1", "2026-01-31 12:00", ScanTrigger.REQUEST, "a")
    decision = decided("2026-01-31 12:01", request="a", known=NEVER, runs=[made], schedule=None)
    assert decision.start is None
    assert decision.scans.handled_request == "a"


def test_requests_are_served_once_each_though_the_clock_was_set_back():
    ahead = succeeded(run("scan-a", "2026-01-31 13:00", ScanTrigger.REQUEST, "a"))
    older = succeeded(run("scan-0", "2026-01-31 11:00", ScanTrigger.REQUEST, "0"))
    made = run("scan-b", "2026-01-31 12:00", ScanTrigger.REQUEST, "b")
    last = LastScan("scan-a", ScanTrigger.REQUEST, ScanState.COMPLETED, ahead.created)
    known = ScansStatus(handled_request="a")
    same = decided("2026-01-31 12:00", request="a", known=known, runs=[older, ahead], last=last, schedule=None)
    assert (same.start, same.scans.handled_request) == (None, "a")
    lost = decided("2026-01-31 12:01", request="b", known=known, runs=[older, ahead, made], last=last, schedule=None)
    assert (lost.start, lost.scans.handled_request) == (None, "b"), "it could not be written down"
    last = LastScan("scan-b", ScanTrigger.REQUEST, ScanState.RUNNING, made.created)
    known = ScansStatus(handled_request="b")
    later = decided("2026-01-31 12:02", request="b", known=known, runs=[older, ahead, made], last=last, schedule=None)
    assert (later.start, later.scans.handled_request) == (None, "b"), "an earlier request is not the last one"


def test_a_request_is_served_while_scans_are_suspended():
    assert decided("2026-01-31 12:00", request="a", suspend=True).start is not None


def test_a_request_and_a_schedule_at_one_time_get_one_scan():
    decision = decided("2026-01-31 03:00", request="a")
    assert decision.start.trigger is ScanTrigger.REQUEST
    assert decided("2026-01-31 03:01", request="a", known=decision.scans_if_started).start is None


def test_a_request_waits_its_turn():
    waiting = decided("2026-01-31 12:00", request="a", runs=[run(created="2026-01-31 11:59")], schedule=None)
    assert waiting.start is None
    assert waiting.scans.handled_request is None


# --- after a change --------------------------------------------------------------------------------------------------


def changed_at(moment, mark="f1"):
    return TopologyChange(mark, at(moment))


ON_CHANGE = {"afterTopologyChange": True, "schedule": None}


def test_a_change_starts_a_scan_once_it_has_lasted_a_minute():
    early = decided("2026-01-31 12:00", known=NEVER, change=changed_at("2026-01-31 12:00"), **ON_CHANGE)
    assert early.start is None
    assert early.requeue_at == at("2026-01-31 12:01")
    due = decided("2026-01-31 12:01", known=NEVER, change=changed_at("2026-01-31 12:00"), **ON_CHANGE)
    assert due.start.trigger is ScanTrigger.TOPOLOGY_CHANGE
    assert due.scans_if_started.handled_topology == "f1"
    again = decided("2026-01-31 13:00", known=due.scans_if_started, change=changed_at("2026-01-31 12:00"), **ON_CHANGE)
    assert again.start is None


def test_a_change_that_is_taken_back_and_made_again_is_scanned_each_time():
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
def test_a_change_starts_nothing_where_nobody_asked(compliance):
    decision = decided("2026-01-31 12:30", known=NEVER, change=changed_at("2026-01-31 12:00"), **compliance)
    assert decision.start is None


def test_a_fingerprint_changes_with_what_an_assessment_depends_on():
    before = fingerprint(topology())
    assert before == fingerprint(topology(schedule=NIGHTLY)), "how scans are run is no reason for one"
    assert before != fingerprint(topology(racks=("/eu/a", "/eu/c")))
    assert before != fingerprint(topology(racks=("/eu/a",)))
    of = topology()
    assert before != fingerprint(structs.replace(of, spec=structs.replace(of.spec, drain_brokers=(1,))))
    assert fingerprint(structs.replace(of, meta=structs.replace(of.meta, generation=2))) is None, "not reconciled yet"
    stale = structs.replace(of, status=structs.replace(of.status, rack_hash="of another spec"))
    assert fingerprint(stale) is None, "racks by an earlier spec"
