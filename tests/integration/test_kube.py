"""`rackspan.kube` on a real API server. No operator writes these ComplianceReports during the tests."""

import pytest
from kubernetes import client

from rackspan.api.meta import ObjectKey
from rackspan.kube.event_queue import EventQueue
from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.paths import REPORTS
from rackspan.kube.rest import Rest, connect
from rackspan.reconcile.ports import ObjectRef


@pytest.fixture
async def rest(control_plane):
    rest = Rest(await connect(control_plane.kubeconfig))
    yield rest
    await rest.close()


@pytest.fixture
def report(api_client, crds, namespace):
    body = {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "ComplianceReport",
        "metadata": {"name": "kafka", "namespace": namespace},
        "spec": {"topologyRef": {"name": "kafka"}},
    }
    reports = client.CustomObjectsApi(api_client)
    made = reports.create_namespaced_custom_object("rackspan.dev", "v1alpha1", namespace, "compliancereports", body)
    return ObjectRef("ComplianceReport", ObjectKey(namespace, "kafka"), made["metadata"]["uid"])


async def test_replace_status_removes_fields_that_the_new_status_omits(rest, report):
    kube = KubeCluster(rest, EventQueue(rest))
    first = await kube.replace_status(report, {"scanId": "one", "summary": {"findings": 3, "byRule": {"Offline": 3}}})
    assert first["status"]["summary"]["byRule"] == {"Offline": 3}
    second = await kube.replace_status(report, {"scanId": "two"})
    assert second["status"] == {"scanId": "two"}


async def test_replace_status_of_an_object_with_another_uid_or_name_changes_nothing(rest, report):
    kube = KubeCluster(rest, EventQueue(rest))
    earlier = ObjectRef(report.kind, report.key, "0b7f3c1e-0000-4000-8000-000000000000")
    assert await kube.replace_status(earlier, {"scanId": "one"}) is None
    assert (
        await kube.replace_status(ObjectRef(report.kind, ObjectKey(report.key.namespace, "none"), report.uid), {})
        is None
    )
    found = await rest.get("get", REPORTS.object(report.key))
    assert found["status"] == {"observedGeneration": -1}


async def test_listed_and_find_return_objects_with_their_uid(rest, report):
    kube = KubeCluster(rest, EventQueue(rest))
    assert (await kube.listed("ComplianceReport")).there[report.key].uid == report.uid
    assert (await kube.find("ComplianceReport", report.key))["metadata"]["uid"] == report.uid
    assert await kube.find("ComplianceReport", ObjectKey(report.key.namespace, "none")) is None


async def test_field_manager_of_status_writes_is_rackspan(rest, report):
    written = await KubeCluster(rest, EventQueue(rest)).replace_status(report, {"scanId": "one"})
    managers = {entry["manager"] for entry in written["metadata"]["managedFields"] if entry.get("subresource")}
    assert managers == {"rackspan"}
