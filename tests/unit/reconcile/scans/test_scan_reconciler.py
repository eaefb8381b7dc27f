"""The loop over all topologies: one that cannot be scanned is no other one's failure, and nothing is asked in vain."""

from dataclasses import dataclass, field
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest
from tests.support.loop_dependencies import scan_dependencies
from tests.support.manifests import TOPOLOGY, changed
from tests.support.scan_setups import scan_setup
from tests.unit.reconcile.scans.examples import at

from rackspan.api.labels import SCAN_NOW
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import RackTopologyStatus, ScansStatus
from rackspan.api.reasons import Reason
from rackspan.metrics import SCAN_NEXT
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Listed
from rackspan.reconcile.scans import scan_reconciler as loops
from rackspan.reconcile.scans.job_status import RunKind, read_run
from rackspan.reconcile.scans.scan_reconciler import ScansReconciler

REFUSED = Failure(Reason.NOT_AUTHORIZED, "no right to create jobs", Remedy.ACCESS)


@dataclass
class MemoryRuns:
    """A namespace for scans. `refusing` are topologies' namespaces whose scans the API server does not take."""

    clock: object
    objects: dict = field(default_factory=dict)
    refusing: set = field(default_factory=set)
    unlisted: set = field(default_factory=set)
    stuck: str = ""
    lists: int = 0

    async def runs(self, kind):
        self.lists += 1
        if kind in self.unlisted:
            raise FailureError(REFUSED)
        return [read_run(kind, body) for body in self.objects.values() if body["kind"] == kind]

    async def unstarted(self, runs):
        return {run.uid: self.stuck for run in runs} if self.stuck else {}

    async def start(self, body):
        if body["metadata"]["labels"]["rackspan.dev/topology-namespace"] in self.refusing:
            raise FailureError(REFUSED)
        name = body["metadata"]["name"]
        if name in self.objects:
            return False
        body["metadata"] |= {"uid": f"uid-of-{name}", "creationTimestamp": self.clock().isoformat()}
        self.objects[name] = body
        return True

    async def delete(self, run):
        self.objects.pop(run.name, None)


@dataclass
class MemoryKube:
    announced: list = field(default_factory=list)
    there: dict = field(default_factory=dict)
    denied: frozenset = frozenset()

    def record_event(self, event):
        self.announced.append(event)

    async def listed(self, kind):
        return Listed(self.there, self.denied)


class World:
    """A loop with a clock that the test sets."""

    def __init__(self):
        self.now = at("2026-01-31 02:59")
        self.runs = MemoryRuns(lambda: self.now)
        self.kube = MemoryKube()
        self.cache = Cache()
        self.told = []
        self.setup = scan_setup(image="rackspan-scan:1")
        self.restart()

    def restart(self):
        """Another process: what is not in an object is forgotten."""
        dependencies = scan_dependencies(self.cache, self.kube, self.runs, self.setup, clock=lambda: self.now)
        self.loop = ScansReconciler(dependencies, self.told.append)

    def topology(self, namespace="kafka", *, request=None, status=None, **compliance):
        metadata = {"name": "prod", "namespace": namespace, "uid": f"uid-of-{namespace}", "generation": 1}
        if request:
            metadata["annotations"] = {SCAN_NOW: request}
        patch = {"metadata": metadata, "spec": {"compliance": compliance} if compliance else {}, "status": status or {}}
        self.cache.put_topology(changed(TOPOLOGY, patch))

    def facts(self, namespace="kafka"):
        return self.loop.facts[ObjectKey(namespace, "prod")]


@pytest.fixture
def world():
    return World()


async def test_where_nobody_asks_for_scans_nothing_is_asked(world):
    world.topology()
    assert [await world.loop.reconcile() for _ in range(3)] == [60, 60, 60]
    assert world.runs.lists == 1, "what an earlier operator left"
    assert world.told == []


async def test_a_scan_is_slept_for_until_it_is_due(world):
    world.topology(schedule="0 3 * * *")
    assert await world.loop.reconcile() == 60
    world.now = at("2026-01-31 02:59") + timedelta(seconds=50)
    assert await world.loop.reconcile() == 10
    world.now = at("2026-01-31 03:00")
    assert await world.loop.reconcile() == 5, "one runs"
    assert len(world.runs.objects) == 1
    await world.loop.reconcile()
    assert len(world.runs.objects) == 1


async def test_a_schedule_that_is_taken_off_before_its_first_scan_is_told_no_more(world):
    world.topology(schedule="0 3 * * *")
    await world.loop.reconcile()
    assert SCAN_NEXT.labels("kafka/prod")._value.get()
    world.topology(status={"scans": {"schedule": "0 3 * * *", "nextAt": "2026-01-31T03:00:00Z"}})
    world.restart()
    await world.loop.reconcile()
    assert world.facts().scans == ScansStatus()
    assert not [
        one for metric in SCAN_NEXT.collect() for one in metric.samples if one.labels["topology"] == "kafka/prod"
    ]


@pytest.mark.parametrize("before", [{"schedule": "every day"}, {"schedule": "0 3 * * *", "engine": "SparkApplication"}])
async def test_why_scans_could_not_be_started_is_told_until_nobody_asks_for_them(world, before):
    world.runs.unlisted = {RunKind.SPARK_APPLICATION}
    world.topology(**before)
    await world.loop.reconcile()
    assert world.facts().failure
    world.topology()
    await world.loop.reconcile()
    assert world.facts().failure is None


async def test_a_topology_that_is_refused_holds_back_no_other(world):
    world.runs.refusing = {"kafka"}
    world.topology(request="a")
    world.topology("shop", request="a")
    assert await world.loop.reconcile() < 60
    assert len(world.runs.objects) == 1
    assert world.facts().failure.reason == Reason.SCAN_NOT_STARTED
    assert world.facts("shop").failure is None
    world.runs.refusing = set()
    await world.loop.reconcile()
    assert len(world.runs.objects) == 2
    assert world.facts().failure is None


async def test_a_scan_waits_until_racks_are_known_by_the_present_spec(world):
    world.topology(request="a", status={"rackHash": "of another spec"})
    world.topology("shop", request="a")
    await world.loop.reconcile()
    assert len(world.runs.objects) == 1
    assert world.facts().failure.reason == Reason.WAITING
    world.topology(request="a")
    await world.loop.reconcile()
    assert len(world.runs.objects) == 2
    assert world.facts().failure is None


async def test_an_engine_that_is_off_stops_no_scans_of_other_topologies(world):
    world.runs.unlisted = {RunKind.SPARK_APPLICATION}
    world.topology(request="a", engine="SparkApplication")
    world.topology("shop", request="a")
    await world.loop.reconcile()
    assert [body["kind"] for body in world.runs.objects.values()] == ["Job"]
    assert world.facts().failure.reason == Reason.SCAN_NOT_STARTED
    assert "scan.sparkApplications" in world.facts().failure.message
    assert world.facts("shop").failure is None
    world.runs.unlisted = set()
    await world.loop.reconcile()
    assert {body["kind"] for body in world.runs.objects.values()} == {"Job", "SparkApplication"}


async def test_why_jobs_cannot_be_listed_is_told_by_each_topology_that_asks_for_scans(world):
    world.topology(schedule="@daily")
    world.topology("shop", request="a")
    ended = {"scanId": "a", "trigger": "Request", "state": "Completed", "startedAt": "2026-01-30T03:00:00Z"}
    world.topology("calm", status={"lastScan": ended})
    world.runs.unlisted = {RunKind.JOB}
    for _ in range(2):
        with pytest.raises(FailureError):
            await world.loop.reconcile()
    assert world.facts().failure == world.facts("shop").failure
    assert world.facts().failure.reason == Reason.SCAN_NOT_STARTED
    assert world.facts().failure.message == f"Jobs cannot be listed: {REFUSED.message}"
    assert ObjectKey("calm", "prod") not in world.loop.facts
    assert len(world.told) == 2
    world.runs.unlisted = set()
    await world.loop.reconcile()
    assert (world.facts().failure, world.facts("shop").failure) == (None, None)


async def test_an_orphan_that_cannot_be_deleted_holds_back_no_scan_and_no_other_orphan(world, monkeypatch):
    monkeypatch.setattr(loops, "_ORPHAN_SECONDS", 0)
    for namespace in ("kafka", "shop"):
        world.topology(namespace, request="a")
    await world.loop.reconcile()
    first, _ = world.runs.objects
    delete = world.runs.delete

    async def refused(run):
        if run.name == first:
            raise FailureError(REFUSED)
        await delete(run)

    world.runs.delete = refused
    for namespace in ("kafka", "shop"):
        world.cache.drop_topology(ObjectKey(namespace, "prod"))
    world.topology("data", request="a")
    await world.loop.reconcile()
    assert [body["metadata"]["labels"]["rackspan.dev/topology-namespace"] for body in world.runs.objects.values()] == [
        "kafka",
        "data",
    ]


async def test_where_it_cannot_be_asked_which_topologies_there_are_scans_start_all_the_same(world, monkeypatch):
    monkeypatch.setattr(loops, "_ORPHAN_SECONDS", 0)
    world.topology("shop", request="a")
    await world.loop.reconcile()
    world.cache.drop_topology(ObjectKey("shop", "prod"))
    world.topology(request="a")
    monkeypatch.setattr(world.kube, "listed", AsyncMock(side_effect=FailureError(REFUSED)))
    await world.loop.reconcile()
    assert len(world.runs.objects) == 2, "one that may be an orphan, and the one that is due"


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_spark_application_that_cannot_be_seen_for_a_while_is_not_taken_to_be_gone(world, restarted):
    world.topology(request="a", engine="SparkApplication")
    await world.loop.reconcile()
    world.runs.unlisted = {RunKind.SPARK_APPLICATION}
    if restarted:
        status = RackTopologyStatus(last_scan=world.facts().last, scans=world.facts().scans)
        world.topology(request="a", engine="SparkApplication", status=status.to_dict())
        world.restart()
    await world.loop.reconcile()
    assert world.facts().last.state == "Running"


async def test_a_defect_that_one_topology_meets_with_holds_up_no_other(world, monkeypatch):
    decide = loops.decide

    def broken(topology, *rest):
        if topology.key.namespace == "kafka":
            raise RuntimeError("a defect")
        return decide(topology, *rest)

    monkeypatch.setattr(loops, "decide", broken)
    world.topology(request="a")
    world.topology("shop", request="a")
    await world.loop.reconcile()
    assert len(world.runs.objects) == 1
    assert world.facts().failure.reason == Reason.UNEXPECTED_ERROR


async def test_scans_beyond_what_may_run_wait_their_turn(world):
    world.setup = scan_setup(image="rackspan-scan:1", max_running=1)
    world.restart()
    world.topology(request="a")
    world.topology("shop", request="a")
    assert await world.loop.reconcile() == 5
    (first,) = world.runs.objects.values()
    assert world.facts().waits_since is None
    assert world.facts("shop").waits_since == world.now
    number = len(world.told)
    await world.loop.reconcile()
    assert len(world.told) == number, "waiting is told once"
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": world.now.isoformat()}
    first["status"] = {"conditions": [ended]}
    await world.loop.reconcile()
    assert len(world.runs.objects) == 2
    assert world.facts("shop").waits_since is None


async def test_a_restart_before_the_status_was_written_starts_nothing_twice(world):
    world.topology(request="a", schedule="0 3 * * *")
    await world.loop.reconcile()
    world.restart()
    await world.loop.reconcile()
    assert len(world.runs.objects) == 1
    assert world.facts().scans.handled_request == "a"


async def test_news_are_told_only_when_there_are_any(world):
    world.topology(request="a")
    await world.loop.reconcile()
    number = len(world.told)
    await world.loop.reconcile()
    await world.loop.reconcile()
    assert len(world.told) == number


async def test_scans_of_a_topology_that_is_gone_go_too(world, monkeypatch):
    world.topology(request="a")
    await world.loop.reconcile()
    world.cache.drop_topology(ObjectKey("kafka", "prod"))
    await world.loop.reconcile()
    assert world.runs.objects, "it may only not be listed yet"
    monkeypatch.setattr(loops, "_ORPHAN_SECONDS", 0)
    world.kube.there = {ObjectKey("kafka", "prod"): "uid-1"}
    await world.loop.reconcile()
    assert world.runs.objects, "the API server still has it"
    world.kube.there, world.kube.denied = {}, frozenset({"kafka"})
    await world.loop.reconcile()
    assert world.runs.objects, "its namespace may not be read"
    world.kube.denied = frozenset()
    await world.loop.reconcile()
    assert world.runs.objects == {}


async def test_scans_of_a_topology_that_can_be_read_just_when_others_are_listed_stay(world, monkeypatch):
    world.topology(request="a")
    await world.loop.reconcile()
    body = world.cache.topologies[ObjectKey("kafka", "prod")]
    world.cache.drop_topology(body.key)
    monkeypatch.setattr(loops, "_ORPHAN_SECONDS", 0)
    listed = world.kube.listed

    async def read_meanwhile(kind):
        world.cache.topologies[body.key] = body
        return await listed(kind)

    monkeypatch.setattr(world.kube, "listed", read_meanwhile)
    await world.loop.reconcile()
    assert world.runs.objects


async def test_scans_of_another_operators_topologies_are_left_alone(world, monkeypatch):
    monkeypatch.setattr(loops, "_ORPHAN_SECONDS", 0)
    world.topology(request="a")
    await world.loop.reconcile()
    world.cache.drop_topology(ObjectKey("kafka", "prod"))
    dependencies = scan_dependencies(
        world.cache, world.kube, world.runs, world.setup, namespaces=("shop",), clock=lambda: world.now
    )
    other = ScansReconciler(dependencies, world.told.append)
    world.topology("shop", schedule="@daily")
    await other.reconcile()
    assert len(world.runs.objects) == 1


async def test_a_stuck_scan_is_ended_by_the_operator_where_nothing_else_ends_it(world):
    world.topology(request="a", activeDeadlineSeconds=600)
    await world.loop.reconcile()
    world.now += timedelta(seconds=662)
    await world.loop.reconcile()
    assert world.runs.objects == {}
    assert world.facts().last.reason == Reason.SCAN_TIMED_OUT
    await world.loop.reconcile()
    assert world.facts().last.reason == Reason.SCAN_TIMED_OUT


@pytest.mark.parametrize("engine", ["Auto", "SparkApplication"])
@pytest.mark.parametrize("later", [{}, {"schedule": "@daily", "activeDeadlineSeconds": 600}])
async def test_a_scan_has_the_deadline_that_it_was_started_with(world, engine, later):
    world.topology(request="a", schedule="@daily", activeDeadlineSeconds=14400, engine=engine)
    await world.loop.reconcile()
    (body,) = world.runs.objects.values()
    body["status"] = {"active": 1, "ready": 1, "applicationState": {"state": "RUNNING"}}
    world.now += timedelta(seconds=14400)
    world.topology(request="a", **later)
    await world.loop.reconcile()
    assert world.facts().last.state == "Running"
    world.now += timedelta(seconds=61)
    await world.loop.reconcile()
    assert world.runs.objects == {}


async def test_a_scan_whose_pod_does_not_start_is_told_and_lets_the_next_one_go(world):
    world.topology(request="a")
    await world.loop.reconcile()
    world.runs.stuck = "ImagePullBackOff: image rackspan-scan:1"
    world.now += timedelta(seconds=20)
    await world.loop.reconcile()
    assert world.facts().unstarted == world.runs.stuck
    assert world.facts().last.state == "Running"
    world.now += timedelta(seconds=600)
    await world.loop.reconcile()
    assert world.runs.objects == {}
    assert world.facts().last.reason == Reason.SCAN_NOT_STARTED
    assert "within 600 s: ImagePullBackOff" in world.facts().last.message
    world.topology(request="b")
    await world.loop.reconcile()
    assert len(world.runs.objects) == 1


async def test_a_pod_that_replaces_one_on_a_drained_node_has_time_to_start(world):
    world.topology(request="a")
    await world.loop.reconcile()
    (body,) = world.runs.objects.values()
    body["status"] = {"active": 1, "ready": 1}
    world.now += timedelta(minutes=30)
    await world.loop.reconcile()
    body["status"] = {"active": 1, "ready": 0}  # a disrupted pod does not count as failed
    world.runs.stuck = "ContainerCreating"
    await world.loop.reconcile()
    world.now += timedelta(minutes=9)
    await world.loop.reconcile()
    assert (world.facts().last.state, world.facts().unstarted) == ("Running", "ContainerCreating")
    world.now += timedelta(minutes=1)
    await world.loop.reconcile()
    assert world.facts().last.reason == Reason.SCAN_NOT_STARTED


async def test_without_a_namespace_for_scans_that_is_told(world):
    world.topology(schedule="@daily")
    dependencies = scan_dependencies(world.cache, world.kube, None, scan_setup(None), clock=lambda: world.now)
    world.loop = ScansReconciler(dependencies, world.told.append)
    await world.loop.reconcile()
    assert world.facts().failure.reason == Reason.SCAN_NOT_SET_UP


async def test_a_topology_that_goes_while_scans_are_listed_is_not_scanned(world):
    world.topology(request="a")
    listed = world.runs.runs

    async def meanwhile(kind):
        world.cache.drop_topology(ObjectKey("kafka", "prod"))
        return await listed(kind)

    world.runs.runs = meanwhile
    await world.loop.reconcile()
    assert world.runs.objects == {}
    assert world.loop.facts == {}
