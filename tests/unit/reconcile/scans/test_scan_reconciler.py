"""The scan loop over all topologies: a failure of one does not affect others, and no needless request is made."""

from dataclasses import dataclass, field
from datetime import timedelta
from unittest.mock import AsyncMock

import pytest
from prometheus_client import REGISTRY
from tests.support.loop_dependencies import scan_dependencies
from tests.support.manifests import TOPOLOGY, changed
from tests.support.scan_setups import scan_setup
from tests.unit.reconcile.scans.examples import at

from rackspan.api.compliancereport import ComplianceReport
from rackspan.api.labels import SCAN_NOW
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import RackTopologyStatus, ScansStatus
from rackspan.api.reasons import Reason
from rackspan.metrics import SCAN_NEXT, SCAN_RUNNING, SCANS_STARTED, forget_topology, serve_topology
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Listed
from rackspan.reconcile.runtime.namespaces import NamespaceQuota
from rackspan.reconcile.scans import scan_reconciler as loops
from rackspan.reconcile.scans.job_status import RunKind, read_run
from rackspan.reconcile.scans.scan_reconciler import ScansReconciler

REFUSED = Failure(Reason.NOT_AUTHORIZED, "no right to create jobs", Remedy.ACCESS)


@dataclass
class MemoryRuns:
    """A namespace for scans. `refusing` are namespaces of topologies whose scans the API server refuses."""

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
    """A loop with a clock that the test sets. `ahead` is how far the operator's is ahead of the API server's."""

    def __init__(self):
        self.now, self.ahead = at("2026-01-31 02:59"), timedelta(0)
        self.runs = MemoryRuns(lambda: self.now)
        self.kube = MemoryKube()
        self.cache = Cache()
        self.told = []
        self.setup = scan_setup(image="rackspan-scan:1")
        self.restart()

    def restart(self):
        """Start a new operator process, which knows only what objects contain."""
        clocks = {"clock": lambda: self.now + self.ahead, "monotonic": self.seconds}
        dependencies = scan_dependencies(self.cache, self.kube, self.runs, self.setup, **clocks)
        self.loop = ScansReconciler(dependencies, self.told.append)

    def seconds(self):
        return self.now.timestamp()

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
    serve_topology("kafka/prod")
    yield World()
    forget_topology("kafka/prod")


async def test_scans_are_listed_only_once_if_no_topology_requests_scans(world):
    world.topology()
    assert [await world.loop.reconcile() for _ in range(3)] == [60, 60, 60]
    assert world.runs.lists == 2, "Jobs and SparkApplications of an earlier operator"
    assert world.told == []


async def test_loop_sleeps_until_the_next_scan_is_due(world):
    world.topology(schedule="0 3 * * *")
    assert await world.loop.reconcile() == 60
    world.now = at("2026-01-31 02:59") + timedelta(seconds=50)
    assert await world.loop.reconcile() == 10
    world.now = at("2026-01-31 03:00")
    assert await world.loop.reconcile() == 5, "a scan runs"
    assert len(world.runs.objects) == 1
    await world.loop.reconcile()
    assert len(world.runs.objects) == 1


async def test_status_and_metric_of_a_removed_schedule_are_removed(world):
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
async def test_start_failure_is_reported_until_scans_are_no_longer_requested(world, before):
    world.runs.unlisted = {RunKind.SPARK_APPLICATION}
    world.topology(**before)
    await world.loop.reconcile()
    assert world.facts().failure
    world.topology()
    await world.loop.reconcile()
    assert world.facts().failure is None


async def test_topology_whose_scan_is_refused_does_not_block_others(world):
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


async def test_scan_waits_until_racks_of_the_current_spec_are_known(world):
    world.topology(request="a", status={"rackHash": "of another spec"})
    world.topology("shop", request="a")
    await world.loop.reconcile()
    assert len(world.runs.objects) == 1
    assert world.facts().failure.reason == Reason.WAITING
    world.topology(request="a")
    await world.loop.reconcile()
    assert len(world.runs.objects) == 2
    assert world.facts().failure is None


async def test_unavailable_engine_does_not_block_scans_of_other_topologies(world):
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


async def test_failed_list_of_jobs_is_reported_by_each_topology_that_requests_scans(world):
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


async def test_orphan_that_cannot_be_deleted_does_not_block_scans_or_other_orphans(world, monkeypatch):
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


async def test_scans_start_even_if_topologies_cannot_be_listed(world, monkeypatch):
    monkeypatch.setattr(loops, "_ORPHAN_SECONDS", 0)
    world.topology("shop", request="a")
    await world.loop.reconcile()
    world.cache.drop_topology(ObjectKey("shop", "prod"))
    world.topology(request="a")
    monkeypatch.setattr(world.kube, "listed", AsyncMock(side_effect=FailureError(REFUSED)))
    await world.loop.reconcile()
    assert len(world.runs.objects) == 2, "the possible orphan and the scan that is due"


@pytest.mark.parametrize("restarted", [False, True])
async def test_spark_application_that_cannot_be_listed_is_not_treated_as_deleted(world, restarted):
    world.topology(request="a", engine="SparkApplication")
    await world.loop.reconcile()
    world.runs.unlisted = {RunKind.SPARK_APPLICATION}
    if restarted:
        status = RackTopologyStatus(last_scan=world.facts().last, scans=world.facts().scans)
        world.topology(request="a", engine="SparkApplication", status=status.to_dict())
        world.restart()
    await world.loop.reconcile()
    assert world.facts().last.state == "Running"


@pytest.mark.parametrize("deleted", [False, True], ids=["engine changed", "topology deleted"])
async def test_spark_applications_of_an_earlier_operator_are_ended_and_deleted(world, monkeypatch, deleted):
    monkeypatch.setattr(loops, "_ORPHAN_SECONDS", 0)
    world.topology(request="a", engine="SparkApplication")
    await world.loop.reconcile()
    assert {body["kind"] for body in world.runs.objects.values()} == {"SparkApplication"}
    world.topology(request="a", engine="Job")
    if deleted:
        world.cache.drop_topology(ObjectKey("kafka", "prod"))
    world.restart()
    for _ in range(3):
        world.now += timedelta(days=1)
        await world.loop.reconcile()
    assert "SparkApplication" not in {body["kind"] for body in world.runs.objects.values()}


async def test_operator_without_the_right_to_list_spark_applications_asks_once(world):
    world.runs.unlisted = {RunKind.SPARK_APPLICATION}
    world.topology(schedule="0 3 * * *")
    await world.loop.reconcile()
    await world.loop.reconcile()
    assert world.facts().failure is None
    assert world.runs.lists == 3, "Jobs twice"


@pytest.mark.parametrize("deleted", [False, True])
async def test_started_scan_is_counted_unless_its_topology_is_deleted_meanwhile(world, monkeypatch, deleted):
    world.topology("brief", request="a")
    serve_topology("brief/prod")
    start = world.runs.start

    async def started(body):
        if deleted:
            world.cache.drop_topology(ObjectKey("brief", "prod"))
            forget_topology("brief/prod")
        return await start(body)

    monkeypatch.setattr(world.runs, "start", started)
    await world.loop.reconcile()
    samples = [one for metric in SCANS_STARTED.collect() for one in metric.samples]
    assert any(one.labels["topology"] == "brief/prod" for one in samples) != deleted
    forget_topology("brief/prod")


async def test_topology_over_the_quota_of_its_namespace_has_no_series_of_scans(world):
    world.cache.quota = NamespaceQuota(0)
    world.topology("crowded", schedule="0 3 * * *")
    await world.loop.reconcile()
    assert world.facts("crowded").failure.reason == Reason.TOO_MANY_TOPOLOGIES
    samples = [one for metric in SCAN_RUNNING.collect() for one in metric.samples]
    assert not [one for one in samples if one.labels["topology"] == "crowded/prod"]


async def test_unexpected_error_for_one_topology_does_not_block_others(world, monkeypatch):
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


async def test_scans_above_the_limit_wait_until_another_ends(world):
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
    assert len(world.told) == number, "waiting is reported once"
    ended = {"type": "Complete", "status": "True", "lastTransitionTime": world.now.isoformat()}
    first["status"] = {"conditions": [ended]}
    await world.loop.reconcile()
    assert len(world.runs.objects) == 2
    assert world.facts("shop").waits_since is None


async def test_restart_before_the_status_was_written_does_not_start_a_scan_twice(world):
    world.topology(request="a", schedule="0 3 * * *")
    await world.loop.reconcile()
    world.restart()
    await world.loop.reconcile()
    assert len(world.runs.objects) == 1
    assert world.facts().scans.handled_request == "a"


@pytest.mark.parametrize("kind", RunKind)
async def test_request_is_handled_once_and_not_before_its_scan_can_be_listed(world, kind):
    start = world.runs.start

    async def started(body):
        world.runs.unlisted = {kind}
        return await start(body)

    world.runs.start = started
    before = {"scanId": "before", "trigger": "Request", "state": "Completed", "startedAt": "2026-01-30T03:00:00Z"}
    world.topology(request="b", engine=kind, status={"scans": {"handledRequest": "a"}, "lastScan": before})
    assert await world.loop.reconcile() == 15
    assert (world.facts().scans.handled_request, world.facts().last.scan_id) == ("a", "before")
    assert world.facts().failure.reason == Reason.SCAN_NOT_STARTED
    world.runs.unlisted = set()
    world.now += timedelta(minutes=1)
    await world.loop.reconcile()
    assert (world.facts().scans.handled_request, world.facts().failure) == ("b", None)
    assert [world.facts().last.scan_id] == [*world.runs.objects]


async def test_status_change_is_requested_only_if_facts_have_changed(world):
    world.topology(request="a")
    await world.loop.reconcile()
    number = len(world.told)
    await world.loop.reconcile()
    await world.loop.reconcile()
    assert len(world.told) == number


async def test_metrics_of_a_report_end_when_the_topology_is_of_another_cluster(world):
    def report(cluster):
        owner = {"apiVersion": "rackspan.dev/v1alpha1", "kind": "RackTopology", "name": "prod", "uid": "uid-of-kafka"}
        body = {
            "metadata": {"name": "prod", "namespace": "kafka", "uid": "r", "ownerReferences": [owner]},
            "spec": {"topologyRef": {"name": "prod"}},
            "status": {"clusterId": cluster, "scanId": "s", "summary": {"partitions": 9, "nonCompliant": 0}},
        }
        world.cache.reports[ObjectKey("kafka", "prod")] = ComplianceReport.from_object(body)

    def judged():
        return REGISTRY.get_sample_value("rackspan_scan_partitions", {"topology": "kafka/prod"})

    world.topology(schedule="0 3 * * *", status={"clusterId": "a"})
    for of, found in (("a", 9), ("b", None), ("b", None), ("a", 9)):
        report(of)
        await world.loop.reconcile()
        assert judged() == found


async def test_scans_of_a_deleted_topology_are_deleted(world, monkeypatch):
    world.topology(request="a")
    await world.loop.reconcile()
    world.cache.drop_topology(ObjectKey("kafka", "prod"))
    await world.loop.reconcile()
    assert world.runs.objects, "the topology may not be listed yet"
    monkeypatch.setattr(loops, "_ORPHAN_SECONDS", 0)
    world.kube.there = {ObjectKey("kafka", "prod"): "uid-1"}
    await world.loop.reconcile()
    assert world.runs.objects, "the API server still has the topology"
    world.kube.there, world.kube.denied = {}, frozenset({"kafka"})
    await world.loop.reconcile()
    assert world.runs.objects, "the namespace of the topology cannot be read"
    world.kube.denied = frozenset()
    await world.loop.reconcile()
    assert world.runs.objects == {}


async def test_scans_stay_if_their_topology_becomes_readable_during_the_list(world, monkeypatch):
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


async def test_scans_of_topologies_outside_the_watched_namespaces_stay(world, monkeypatch):
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


async def test_operator_deletes_an_overdue_scan(world):
    world.topology(request="a", activeDeadlineSeconds=600)
    await world.loop.reconcile()
    world.now += timedelta(seconds=662)
    await world.loop.reconcile()
    assert world.runs.objects == {}
    assert world.facts().last.reason == Reason.SCAN_TIMED_OUT
    await world.loop.reconcile()
    assert world.facts().last.reason == Reason.SCAN_TIMED_OUT


@pytest.mark.parametrize("ahead", [timedelta(days=-3), timedelta(minutes=62), timedelta(days=3)])
async def test_scan_keeps_its_deadlines_while_the_clocks_of_operator_and_api_server_differ(world, ahead):
    world.topology(request="a")
    world.ahead = ahead
    await world.loop.reconcile()
    world.runs.stuck = "ContainerCreating"
    world.now += timedelta(seconds=20)
    await world.loop.reconcile()
    assert (world.facts().last.state, world.facts().unstarted) == ("Running", "ContainerCreating")
    world.ahead += timedelta(minutes=10)
    await world.loop.reconcile()
    assert world.facts().last.state == "Running"
    world.now += timedelta(minutes=10)
    await world.loop.reconcile()
    assert world.facts().last.reason == Reason.SCAN_NOT_STARTED


async def test_deadline_of_a_scan_begins_anew_with_the_operator(world):
    world.topology(request="a", activeDeadlineSeconds=600)
    await world.loop.reconcile()
    world.now += timedelta(seconds=3600)
    world.restart()
    await world.loop.reconcile()
    assert world.facts().last.state == "Running"
    world.now += timedelta(seconds=661)
    await world.loop.reconcile()
    assert world.facts().last.reason == Reason.SCAN_TIMED_OUT


@pytest.mark.parametrize("engine", ["Auto", "SparkApplication"])
@pytest.mark.parametrize("later", [{}, {"schedule": "@daily", "activeDeadlineSeconds": 600}])
async def test_running_scan_keeps_the_deadline_that_it_was_started_with(world, engine, later):
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


async def test_scan_whose_pod_does_not_start_is_reported_and_then_deleted(world):
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


async def test_replacement_pod_of_a_long_scan_has_the_full_time_to_start(world):
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


async def test_missing_namespace_for_scans_is_reported(world):
    world.topology(schedule="@daily")
    dependencies = scan_dependencies(world.cache, world.kube, None, scan_setup(None), clock=lambda: world.now)
    world.loop = ScansReconciler(dependencies, world.told.append)
    await world.loop.reconcile()
    assert world.facts().failure.reason == Reason.SCAN_NOT_SET_UP


async def test_topology_that_is_deleted_during_the_list_is_not_scanned(world):
    world.topology(request="a")
    listed = world.runs.runs

    async def meanwhile(kind):
        world.cache.drop_topology(ObjectKey("kafka", "prod"))
        return await listed(kind)

    world.runs.runs = meanwhile
    await world.loop.reconcile()
    assert world.runs.objects == {}
    assert world.loop.facts == {}
