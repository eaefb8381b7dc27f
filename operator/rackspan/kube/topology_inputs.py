"""Reads the inputs of scans and plans: objects, the credentials for Kafka, and the nodes of pods and brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rackspan.api.codec import SpecError
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.reasons import Reason
from rackspan.kube.event_queue import EventQueue
from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.kube_objects import HOST_PAGE, METADATA_LIST, OWN_PAGE, POD_PAGE
from rackspan.kube.paths import NAMESPACES, NODES, PODS, TOPICS
from rackspan.kube.rest import NotFoundError, Rest, connected
from rackspan.kube.topology_edits import TopologyEdits
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster.client import read_credentials
from rackspan.reconcile.failures import Failure, FailureError, Remedy, invalid_spec
from rackspan.reconcile.specs.ownership import refusal
from rackspan.reports.group_rows import HostFacts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.ports import Credentials


@dataclass(frozen=True, slots=True)
class ScanInputs:
    """A RackTopology, the KafkaTopics that may use it, and the other inputs of its scan.

    `hosts` are the running pods and the nodes with their addresses, `nodes` the labels of the nodes. If these may not
    be read, both are empty and `host_warnings` says so. `namespaces` are the labels of all namespaces.
    """

    topology: RackTopology
    topics: tuple[KafkaTopic, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    credentials: Credentials
    warnings: tuple[str, ...]
    hosts: tuple[HostFacts, ...]
    nodes: Mapping[str, Mapping[str, str]]
    host_warnings: tuple[str, ...]


async def read_scan_inputs(key: ObjectKey, kubeconfig: Path | None = None) -> ScanInputs:
    """Read the inputs over a new connection: of the kubeconfig, else the pod's account, else the default kubeconfig.

    Raises FailureError if the topology, a Secret or a right is missing, or the API server is unreachable.
    """
    async with connected(kubeconfig, "rackspan-scan") as rest:
        return await read_scan_inputs_with(rest, key)


async def read_scan_inputs_with(rest: Rest, key: ObjectKey) -> ScanInputs:
    """Read the inputs over this connection. Raises FailureError."""
    topology = await TopologyEdits(rest, key).read()
    if topology.spec.invalid_level is not None:
        raise invalid_spec(f"RackTopology {key}: {topology.spec.invalid_level}")
    warnings: list[str] = []
    listed = rest.each("list_namespaces", NAMESPACES.collection(), HOST_PAGE, accept=METADATA_LIST)
    namespaces = {one["metadata"]["name"]: one["metadata"].get("labels") or {} async for one in listed}
    topics = await _topics(rest, topology, namespaces, warnings)
    credentials = await read_credentials(
        topology.spec.kafka, key.namespace, KubeCluster(rest, EventQueue(rest), [key.namespace])
    )
    return ScanInputs(topology, topics, namespaces, credentials, tuple(warnings), *await _hosts(rest))


async def _topics(
    rest: Rest, topology: RackTopology, namespaces: Mapping[str, Mapping[str, str]], warnings: list[str]
) -> tuple[KafkaTopic, ...]:
    found: dict[ObjectKey, KafkaTopic] = {}
    async for item in rest.each("list_topics", TOPICS.collection(), OWN_PAGE):
        try:
            topic = KafkaTopic.from_object(item)
        except SpecError as error:
            metadata = item["metadata"]
            warnings.append(f"KafkaTopic {metadata['namespace']}/{metadata['name']} cannot be read: {error}")
            continue
        if topic.topology != topology.key:
            continue
        if refusal(topic, topology, namespaces) is None:
            found[topic.key] = topic
    return tuple(found.values())


async def _hosts(rest: Rest) -> tuple[tuple[HostFacts, ...], Mapping[str, Mapping[str, str]], tuple[str, ...]]:
    """Return hosts, nodes' labels and warnings. If they may not be read, consumers have no rack; nothing else fails."""
    hosts: list[HostFacts] = []
    labels: dict[str, Mapping[str, str]] = {}
    try:
        async for node in rest.each("list_nodes", NODES.collection(), HOST_PAGE):
            name = node["metadata"]["name"]
            labels[name] = node["metadata"].get("labels") or {}
            hosts.append(HostFacts(_node_addresses(node), name))
        running = {"fieldSelector": "status.phase=Running"}
        async for pod in rest.each("list_pods", PODS.collection(), HOST_PAGE, query=running):
            hosts.append(HostFacts(_pod_addresses(pod), (pod.get("spec") or {}).get("nodeName")))  # noqa: PERF401
    except FailureError as error:
        return (), {}, (f"racks of consumers are not known: {error}",)
    return tuple(hosts), labels, ()


def _pod_addresses(pod: Mapping[str, Any]) -> tuple[str, ...]:
    if (pod.get("spec") or {}).get("hostNetwork"):
        return ()  # the pod has the addresses of its node
    return tuple(entry["ip"] for entry in (pod.get("status") or {}).get("podIPs") or ())


def _node_addresses(node: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(entry["address"] for entry in (node.get("status") or {}).get("addresses") or ())


@dataclass(frozen=True, slots=True)
class TopologyInputs:
    """A topology with its topics and credentials, and the nodes, pods and namespaces in a cache like the operator's."""

    scan: ScanInputs
    cache: Cache


async def read_plan_inputs(key: ObjectKey, kubeconfig: Path | None = None) -> TopologyInputs:
    """Read the inputs over a new connection: of the kubeconfig, else the pod's account, else the default kubeconfig.

    Raises FailureError if the topology, a Secret or a right is missing, or the API server is unreachable.
    """
    async with connected(kubeconfig) as rest:
        try:
            scan = await read_scan_inputs_with(rest, key)
            cache = Cache()
            async for node in rest.each("list_nodes", NODES.collection(), HOST_PAGE, accept=METADATA_LIST):
                cache.put_node(node)
            cache.namespaces.update(scan.namespaces)
            path = PODS.in_namespace(scan.topology.broker_namespace)
            async for pod in rest.each("list_pods", path, POD_PAGE):
                cache.put_pod(pod)
        except NotFoundError as error:
            raise FailureError(
                Failure(Reason.NOT_AUTHORIZED, f"the API server does not have {error}", Remedy.ACCESS)
            ) from error
    return TopologyInputs(scan, cache)
