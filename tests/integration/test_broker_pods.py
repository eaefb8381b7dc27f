"""Evictions and annotations of broker pods on a real API server, and the partitions that real brokers host."""

import asyncio
import secrets

import pytest
from dev.stack.nodes import create_broker_pod, create_node, delete_node
from kubernetes import client
from tests.integration.test_kube import rest  # noqa: F401 - a fixture

from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import KafkaSpec
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.client_config import client_properties
from rackspan.kube.rack_objects import KubeBrokerPods
from rackspan.reconcile.ports import Credentials, Eviction


class Leads:
    """A Lease check that always allows writes."""

    def check(self):
        pass


@pytest.fixture
def core(api_client):
    return client.CoreV1Api(api_client)


@pytest.fixture
def node(core, namespace):
    """The name of a node. Kubernetes deletes the pods of nodes that do not exist."""
    name = f"{namespace}-node-of-nobody"
    create_node(core, name, {})
    yield name
    delete_node(core, name)


@pytest.fixture
def pod(core, namespace, node):
    create_broker_pod(core, namespace, "kafka-0", node)
    return ObjectKey(namespace, "kafka-0")


@pytest.fixture
def pods(rest):  # noqa: F811 - the fixture
    return KubeBrokerPods(rest)


@pytest.fixture
def budget(api_client, pod):
    """A budget that allows no disruption, because no controller counts its pods here."""
    policy = client.PolicyV1Api(api_client)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kafka"}}}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kafka"}, "spec": spec}
    policy.create_namespaced_pod_disruption_budget(pod.namespace, body)
    yield
    policy.delete_namespaced_pod_disruption_budget("kafka", pod.namespace)


async def test_disruption_budget_refuses_an_eviction_and_its_dry_run(pods, pod, node, budget):
    found = await pods.get(pod)
    assert (found.ready, found.deleting, found.node) == (True, False, node)
    assert await pods.evict(pod, found.uid, rehearse=True) is Eviction.REFUSED
    assert await pods.evict(pod, found.uid, rehearse=False) is Eviction.REFUSED
    assert await pods.get(pod) == found


async def test_eviction_needs_the_uid_of_the_pod_and_a_dry_run_keeps_the_pod(pods, pod):
    found = await pods.get(pod)
    assert await pods.evict(pod, "0b7f3c1e-0000-4000-8000-000000000000", rehearse=False) is Eviction.GONE
    assert await pods.evict(pod, found.uid, rehearse=True) is Eviction.ACCEPTED
    assert await pods.get(pod) == found
    assert await pods.evict(pod, found.uid, rehearse=False) is Eviction.ACCEPTED
    assert await pods.get(pod) is None
    assert await pods.evict(pod, found.uid, rehearse=False) is Eviction.GONE


async def test_rack_annotation_is_applied_to_a_pod_without_other_changes(pods, pod, core):
    before = core.read_namespaced_pod(pod.name, pod.namespace)
    for rack in ("/eu/eu-1a", "/eu/eu-1b"):
        await pods.annotate(pod, rack)
        after = core.read_namespaced_pod(pod.name, pod.namespace)
        assert after.metadata.annotations == {"rackspan.dev/rack": rack}
        assert (after.spec, after.status) == (before.spec, before.status)
    (owner,) = [one for one in after.metadata.managed_fields if one.manager == "rackspan"]
    assert (owner.operation, owner.subresource) == ("Apply", "status")
    core.patch_namespaced_pod(pod.name, pod.namespace, {"metadata": {"annotations": {"rackspan.dev/rack": "mine"}}})
    await pods.annotate(pod, "/eu/eu-1b")
    assert core.read_namespaced_pod(pod.name, pod.namespace).metadata.annotations == {"rackspan.dev/rack": "/eu/eu-1b"}
    await pods.annotate(pod, None)
    assert not core.read_namespaced_pod(pod.name, pod.namespace).metadata.annotations
    await pods.annotate(ObjectKey(pod.namespace, "kafka-99"), "/eu/eu-1b")
    assert [one.metadata.name for one in core.list_namespaced_pod(pod.namespace).items] == [pod.name]


async def test_hosted_returns_the_partitions_of_a_broker_with_their_isr(kafka, topics):
    name = f"hosted-{secrets.token_hex(4)}"
    topics.create(name, [[0, 1], [1, 2], [2, 0]])
    spec = KafkaSpec(bootstrap_servers=kafka.bootstrap())
    admin = ConfluentAdmin(client_properties(spec, Credentials()), Leads())

    async def hosted():
        return [one for one in await admin.hosted(0) if one.topic == name]

    try:
        async with asyncio.timeout(300):
            found = await hosted()
            while {len(one.in_sync) for one in found} != {2}:  # Kafka has no event for it
                await asyncio.sleep(0.1)
                found = await hosted()
        assert sorted((one.partition, one.replicas) for one in found) == [(0, (0, 1)), (2, (2, 0))]
    finally:
        await admin.close()
        topics.admin.delete_topics([name])[name].result(120)
