"""What the API server has told: nodes, pods, namespaces, topologies and topics, and who claims which Kafka topic.

The only mutable picture of Kubernetes in the operator. It belongs to the event loop; nothing here waits.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import RackTopology
from rackspan.reconcile.racks import PodFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


class Inventory:
    """Objects by key. `put_*` and `drop_*` are idempotent."""

    def __init__(self) -> None:
        self.nodes: dict[str, Mapping[str, str]] = {}
        self.pods: dict[ObjectKey, PodFacts] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.topologies: dict[ObjectKey, RackTopology] = {}
        self.topics: dict[ObjectKey, KafkaTopic] = {}
        self._topics_of: defaultdict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        self._claims: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._clusters: dict[ObjectKey, str] = {}

    def topics_of(self, topology: ObjectKey) -> Collection[ObjectKey]:
        """The KafkaTopics that name this topology."""
        return tuple(self._topics_of.get(topology, ()))

    def claims(self, topic: KafkaTopic) -> Collection[KafkaTopic]:
        """All objects, this one among them, for one topic of one Kafka cluster, through whichever topology they go."""
        cluster = self._cluster_of(topic.topology)
        found = (self.topics[key] for key in self._claims.get(topic.topic_name, ()))
        return [
            claim
            for claim in found
            if claim.topology == topic.topology or (cluster and self._cluster_of(claim.topology) == cluster)
        ]

    def leads_to(self, topology: ObjectKey, cluster_id: str) -> None:
        """Remember which Kafka cluster answers behind a topology."""
        self._clusters[topology] = cluster_id

    def _cluster_of(self, key: ObjectKey) -> str | None:
        """The cluster that answered, else the one that answered before the operator was started."""
        topology = self.topologies.get(key)
        return self._clusters.get(key) or (topology.status.cluster_id if topology else None)

    def put_topic(self, body: Mapping[str, Any]) -> KafkaTopic:
        """Remember a KafkaTopic as the API server last showed it. Raises SpecError."""
        metadata = body["metadata"]
        known = self.topics.get(ObjectKey(metadata["namespace"], metadata["name"]))
        if known is not None and known.meta.resource_version == metadata.get("resourceVersion"):
            return known  # every change is told more than once: by index, by event, by the answer to a patch
        return self.keep_topic(KafkaTopic.from_object(body))

    def keep_topic(self, topic: KafkaTopic) -> KafkaTopic:
        """Remember a KafkaTopic."""
        self.drop_topic(topic.key)
        self.topics[topic.key] = topic
        self._topics_of[topic.topology].add(topic.key)
        self._claims[topic.topic_name].add(topic.key)
        return topic

    def drop_topic(self, key: ObjectKey) -> KafkaTopic | None:
        """Forget a KafkaTopic."""
        topic = self.topics.pop(key, None)
        if topic is not None:
            _discard(self._topics_of, topic.topology, key)
            _discard(self._claims, topic.topic_name, key)
        return topic

    def put_topology(self, body: Mapping[str, Any]) -> RackTopology:
        """Remember a RackTopology as the API server last showed it."""
        topology = RackTopology.from_object(body)
        self.topologies[topology.key] = topology
        return topology

    def drop_topology(self, key: ObjectKey) -> None:
        """Forget a RackTopology."""
        self.topologies.pop(key, None)
        self._clusters.pop(key, None)

    def put_node(self, body: Mapping[str, Any]) -> bool:
        """Remember a node's labels; whether they changed."""
        name, labels = body["metadata"]["name"], dict(body["metadata"].get("labels") or {})
        changed = self.nodes.get(name) != labels
        self.nodes[name] = labels
        return changed

    def put_pod(self, body: Mapping[str, Any]) -> bool:
        """Remember what a pod says of a broker; whether that changed. A finished pod runs no broker."""
        metadata = body["metadata"]
        key = ObjectKey(metadata["namespace"], metadata["name"])
        if (body.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return self.pods.pop(key, None) is not None
        facts = PodFacts(
            key.namespace,
            key.name,
            dict(metadata.get("labels") or {}),
            dict(metadata.get("annotations") or {}),
            (body.get("spec") or {}).get("nodeName"),
        )
        changed = self.pods.get(key) != facts
        self.pods[key] = facts
        return changed

    def put_namespace(self, body: Mapping[str, Any]) -> bool:
        """Remember a namespace's labels; whether they changed."""
        name, labels = body["metadata"]["name"], dict(body["metadata"].get("labels") or {})
        changed = self.namespaces.get(name) != labels
        self.namespaces[name] = labels
        return changed


def _discard(index: dict[Any, set[ObjectKey]], at: Any, key: ObjectKey) -> None:
    keys = index.get(at)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[at]
