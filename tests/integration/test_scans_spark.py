"""Scans with the Spark engines on a real API server. Real executors run in tests/e2e."""

import datetime as dt
import secrets

import pytest
from kubernetes import client
from tests.support.objects import condition
from tests.support.published import served
from tests.support.scans import SCAN_NOW, UNREACHABLE
from tests.support.waiting import until

pytestmark = pytest.mark.stack

SPARK = ("sparkoperator.k8s.io", "v1beta2")


@pytest.fixture
def spark_applications(kubectl):
    """The SparkApplication kind of the Kubeflow operator, which exists during the test, without a controller."""
    with served(kubectl, SPARK[0], "sparkapplications"):
        yield


@pytest.fixture
def scans(namespace_factory):
    return namespace_factory()


@pytest.fixture
def scanning(operator_factory, scans, objects):
    pod = '--scan-pod={"nodeSelector": {"scans": "yes"}, "imagePullSecrets": [{"name": "pull"}]}'
    flags = ["--scan-image=rackspan-scan:test", f"--scan-namespace={scans}", f"--namespace={objects.namespace}"]
    return operator_factory(*flags, f"--scan-trusted-namespace={objects.namespace}", pod)


def request(objects, **compliance):
    manifest = objects.topology_manifest(UNREACHABLE, compliance=compliance)
    manifest["metadata"]["annotations"] = {SCAN_NOW: secrets.token_hex(4)}
    objects.create(manifest)


def test_spark_application_is_created_and_its_failure_is_reported(spark_applications, scanning, scans, objects):
    custom = client.CustomObjectsApi(objects.api)

    def applications():
        return custom.list_namespaced_custom_object(*SPARK, scans, "sparkapplications")["items"]

    request(
        objects,
        engine="SparkApplication",
        executors={"instances": 3, "memory": "2g"},
        sparkConf={"spark.sql.shuffle.partitions": "8"},
        historyVolume={"claimName": "scans"},
        resources={"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": 2}},
    )
    (made,) = until(applications, "a SparkApplication")
    spec = made["spec"]
    assert spec["executor"]["instances"] == 3
    assert spec["executor"]["nodeSelector"] == {"scans": "yes"}
    assert spec["sparkConf"]["spark.sql.shuffle.partitions"] == "8"
    assert spec["imagePullSecrets"] == ["pull"]
    assert (spec["driver"]["coreRequest"], spec["driver"]["coreLimit"]) == ("500m", "2")
    assert spec["arguments"][:3] == ["scan", "--topology", f"{objects.namespace}/kafka"]
    ended = {
        "applicationState": {"state": "FAILED", "errorMessage": "driver container failed with ExitCode: 3"},
        "driverInfo": {},
        "terminationTime": "2026-01-31T03:05:00Z",
    }
    custom.patch_namespaced_custom_object_status(
        *SPARK, scans, "sparkapplications", made["metadata"]["name"], {"status": ended}
    )
    topology = objects.until_condition("RackTopology", "kafka", "Scanned", "False", "ScanFailed")
    assert "ExitCode: 3" in condition(topology, "Scanned")["message"]


def test_spark_application_without_the_spark_operator_is_reported_as_not_started(scanning, scans, objects, promise):
    request(objects, engine="SparkApplication")
    topology = objects.until_condition("RackTopology", "kafka", "Scanned", "False", "ScanNotStarted")
    promise.kept_by(topology, "Scanned")
    objects.change_topology(compliance={"engine": "Job"})
    batch = client.BatchV1Api(objects.api)
    until(lambda: batch.list_namespaced_job(scans).items, "a Job instead")


def test_spark_on_kubernetes_driver_runs_as_a_job(scanning, scans, objects):
    request(objects, engine="SparkOnKubernetes", executors={"instances": 2})
    batch = client.BatchV1Api(objects.api)
    (job,) = until(lambda: batch.list_namespaced_job(scans).items, "a Job")
    container = job.spec.template.spec.containers[0]
    assert container.args[-1] == "k8s://https://kubernetes.default.svc"
    (submit,) = [entry.value for entry in container.env if entry.name == "PYSPARK_SUBMIT_ARGS"]
    assert f"spark.kubernetes.namespace={scans}" in submit
    assert job.spec.template.spec.node_selector == {"scans": "yes"}


IMPATIENT = """
from datetime import timedelta
from rackspan.reconcile.scans import scan_decision

scan_decision.DEBOUNCE = timedelta(seconds=8)
"""


@pytest.fixture
def impatient(operator_factory, scans, objects, tmp_path):
    """An operator with a debounce time of eight seconds. Unit tests of the decision check the real time of one minute.

    Python imports sitecustomize before all other modules.
    """
    (tmp_path / "sitecustomize.py").write_text(IMPATIENT)
    flags = ["--scan-image=rackspan-scan:test", f"--scan-namespace={scans}", f"--namespace={objects.namespace}"]
    return operator_factory(*flags, environment={"PYTHONPATH": str(tmp_path)})


def test_topology_change_starts_a_scan_after_the_debounce_time(impatient, kafka, broker_sites, scans, objects):
    objects.create_topology(kafka.bootstrap(), compliance={"afterTopologyChange": True})
    objects.until_topology()
    batch = client.BatchV1Api(objects.api)
    (job,) = until(lambda: batch.list_namespaced_job(scans).items, "the first scan")
    assert job.metadata.labels["rackspan.dev/scan-trigger"] == "TopologyChange"
    scanned = objects.until("RackTopology", "kafka", lambda obj: "handledTopology" in obj["status"].get("scans", {}))
    assert scanned["status"]["scans"]["handledTopology"] == job.metadata.annotations["rackspan.dev/scan-cause"]
    seen = dt.datetime.fromisoformat(scanned["metadata"]["creationTimestamp"])
    assert (job.metadata.creation_timestamp - seen).total_seconds() >= 7, "the scan started before the debounce time"
