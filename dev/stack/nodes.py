"""Kubernetes nodes in regions, zones and racks, and broker pods on them."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from dev.waiting import eventually

REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"
RACK_LABEL = "topology.rackspan.dev/rack"
LEVELS = {"region": REGION_LABEL, "zone": ZONE_LABEL, "rack": RACK_LABEL}
BROKER_LABELS = {"app": "kafka"}
_CONFLICT = 409
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Site:
    """The location of one broker, after which its node and its pod are named."""

    broker: int
    region: str
    zone: str
    rack: str

    @property
    def path(self) -> str:
        """The rack id: `/eu/eu-1a/r1`."""
        return f"/{self.region}/{self.zone}/{self.rack}"

    @property
    def node(self) -> str:
        return f"node-{self.broker}"

    @property
    def pod(self) -> str:
        return f"kafka-{self.broker}"

    @property
    def labels(self) -> dict[str, str]:
        return {REGION_LABEL: self.region, ZONE_LABEL: self.zone, RACK_LABEL: self.rack}


def sites(*paths: str) -> tuple[Site, ...]:
    """Return the sites of brokers 0, 1, 2, ... from rack ids of three levels: `sites("/eu/eu-1a/r1", ...)`."""
    return tuple(Site(broker, *path.strip("/").split("/")) for broker, path in enumerate(paths))


# Six brokers over two regions and three zones: the smallest layout with a choice at every level.
SIX_BROKERS = sites(
    *("/eu/eu-1a/r1", "/eu/eu-1a/r2", "/eu/eu-1b/r1"),
    *("/us/us-1a/r1", "/us/us-1a/r2", "/us/us-1a/r2"),
)
# Nine brokers, uneven on purpose: five in three zones of one region, four in two of the other, racks of one and two.
NINE_BROKERS = sites(
    *("/eu/eu-1a/r1", "/eu/eu-1a/r1", "/eu/eu-1a/r2", "/eu/eu-1b/r1", "/eu/eu-1c/r1"),
    *("/us/us-1a/r1", "/us/us-1a/r1", "/us/us-1a/r2", "/us/us-1b/r1"),
)


def create_node(api: client.CoreV1Api, name: str, labels: Mapping[str, str]) -> None:
    """Create or update a node that is Ready and stays Ready, because no controller checks its lease."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}
    manifest: Any = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    try:
        api.create_node(manifest)
    except ApiException as error:
        if error.status != _CONFLICT:
            raise
        api.patch_node(name, {"metadata": {"labels": labels}})
    # Admission taints every new node as not ready. Normally, the first report of the kubelet removes the taint.
    api.patch_node(name, {"spec": {"taints": None}})
    set_node_ready(api, name, "True")


def set_node_ready(api: client.CoreV1Api, name: str, status: str) -> None:
    """Set the Ready condition of a node to "True", "False" or "Unknown", like its kubelet."""
    now = _now()
    reason = "KubeletReady" if status == "True" else "KubeletNotReady"
    ready = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": "set by rackspan's development stack",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    api.patch_node_status(name, {"status": {"conditions": [ready], "capacity": resources, "allocatable": resources}})


def relabel_node(api: client.CoreV1Api, name: str, labels: Mapping[str, str | None]) -> None:
    """Change the labels of a node. None removes a label."""
    api.patch_node(name, {"metadata": {"labels": dict(labels)}})


def delete_node(api: client.CoreV1Api, name: str) -> None:
    """Delete a node if it exists."""
    _ignoring_absence(lambda: api.delete_node(name))


def broker_pod(pod: str, node: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Any:
    """Return the manifest of the pod of a broker."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod, "labels": dict(labels), "annotations": dict(annotations)},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            # No kubelet confirms the end of the pod, so with a grace period its deletion would never complete.
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "kafka", "image": "kafka"}],
        },
    }


def create_broker_pod(
    api: client.CoreV1Api,
    namespace: str,
    pod: str,
    node: str,
    *,
    labels: Mapping[str, str] = BROKER_LABELS,
    annotations: Mapping[str, str] | None = None,
) -> None:
    """Create a running broker pod on a node. No kubelet runs it. The broker is a process of the stack."""
    manifest = broker_pod(pod, node, labels, annotations or {})

    def created() -> bool:
        try:
            api.create_namespaced_pod(namespace, manifest)
        except ApiException as error:
            if error.status == _CONFLICT:
                return True
            # The service account of a new namespace is created later, and pods are rejected until then.
            if "serviceaccount" in str(error.body):
                return False
            raise
        return True

    eventually(created, f"the service account of namespace {namespace}")
    set_pod_ready(api, namespace, pod, "True")


def set_pod_ready(api: client.CoreV1Api, namespace: str, pod: str, status: str) -> None:
    """Mark a pod as running, and as ready or not ("True", "False"), like its kubelet."""
    now = _now()
    container = {
        "name": "kafka",
        "image": "kafka",
        "imageID": "",
        "ready": status == "True",
        "restartCount": 0,
        "state": {"running": {"startedAt": now}},
    }
    conditions = [{"type": kind, "status": status, "lastTransitionTime": now} for kind in ("Ready", "ContainersReady")]
    report = {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}
    api.patch_namespaced_pod_status(pod, namespace, {"status": report})


def delete_broker_pod(api: client.CoreV1Api, namespace: str, pod: str) -> None:
    """Delete a pod at once, if it exists."""
    _ignoring_absence(lambda: api.delete_namespaced_pod(pod, namespace, grace_period_seconds=0))


def create_sites(api: client.CoreV1Api, namespace: str, where: Iterable[Site], *, node_prefix: str = "") -> None:
    """Create the node of each site and its pod in `namespace`. `node_prefix` separates the nodes of namespaces."""
    for site in where:
        create_node(api, node_prefix + site.node, site.labels)
        create_broker_pod(api, namespace, site.pod, node_prefix + site.node)


def _ignoring_absence(delete: Callable[[], object]) -> None:
    try:
        delete()
    except ApiException as error:
        if error.status != _NOT_FOUND:
            raise


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
