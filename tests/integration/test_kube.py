"""The kube room on the real API server. The operator leaves ComplianceReports alone, so nobody else writes here."""

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


async def test_what_the_next_status_does_not_say_is_gone(rest, report):
    kube = KubeCluster(rest, EventQueue(rest))
    first = await kube.replace_status(report, {"scanId": "one", "summary": {"findings": 3, "byRule": {"Offline": 3}}})
    assert first["status"]["summary"]["byRule"] == {"Offline": 3}
    second = await kube.replace_status(report, {"scanId": "two"})
    assert second["status"] == {"scanId": "two"}


async def test_another_object_of_the_same_name_keeps_its_status(rest, report):
    kube = KubeCluster(rest, EventQueue(rest))
    earlier = ObjectRef(report.kind, report.key, "0b7f3c1e-0000-4000-8000-000000000000")
    assert await kube.replace_status(earlier, {"scanId": "one"}) is None
    assert (
        await kube.replace_status(ObjectRef(report.kind, ObjectKey(report.key.namespace, "none"), report.uid), {})
        is None
    )
    found = await rest.get("get", REPORTS.object(report.key))
    assert found["status"] == {"observedGeneration": -1}


async def test_an_object_is_found_by_kind_and_name_and_told_by_its_uid(rest, report):
    kube = KubeCluster(rest, EventQueue(rest))
    assert (await kube.listed("ComplianceReport")).there[report.key].uid == report.uid
    assert (await kube.find("ComplianceReport", report.key))["metadata"]["uid"] == report.uid
    assert await kube.find("ComplianceReport", ObjectKey(report.key.namespace, "none")) is None


async def test_the_operator_has_a_name_of_its_own_among_field_managers(rest, report):
    written = await KubeCluster(rest, EventQueue(rest)).replace_status(report, {"scanId": "one"})
    managers = {entry["manager"] for entry in written["metadata"]["managedFields"] if entry.get("subresource")}
    assert managers == {"rackspan"}
