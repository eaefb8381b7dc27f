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

    from rackspan.api.compliancereport import ComplianceReportStatus
    from rackspan.reconcile.scans.outcome import ScanFacts


class Inventory:
    """Objects by key. `put_*` and `drop_*` are idempotent."""

    def __init__(self) -> None:
        self.nodes: dict[str, Mapping[str, str]] = {}
        self.pods: dict[ObjectKey, PodFacts] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.topologies: dict[ObjectKey, RackTopology] = {}
        self.topics: dict[ObjectKey, KafkaTopic] = {}
        self.reports: dict[ObjectKey, ComplianceReportStatus] = {}
        """What the last scan of a topology reported, by the topology."""
        self.scans: dict[ObjectKey, ScanFacts] = {}
        """What is known of a topology's scans, which its status may not tell yet."""
        self._topics_of: defaultdict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        self._claims: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._clusters: dict[ObjectKey, str] = {}

    def topics_of(self, topology: ObjectKey) -> Collection[ObjectKey]:
        """The KafkaTopics that name this topology."""
        return tuple(self._topics_of.get(topology, ()))

    def topics_named(self, topology: ObjectKey, name: str) -> Collection[KafkaTopic]:
        """The KafkaTopics of this topology for a topic of that name."""
        found = (self.topics[key] for key in self._claims.get(name, ()))
        return [topic for topic in found if topic.topology == topology]

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
        """Remember a KafkaTopic as it was told, unless something newer is known; what is known now. Raises SpecError.

        Every change is told more than once (by index, by event, by the answer to a write) and in any order: an answer
        that is overtaken by the event of a later deletion must not bring back the time before it.
        """
        known = self._known_topic(body)
        if known is not None and not _is_older(known.meta.resource_version, _version(body)):
            return known
        return self.keep_topic(KafkaTopic.from_object(body))

    def put_answer(self, body: Mapping[str, Any]) -> KafkaTopic | None:
        """Remember what the answer to a write says of a KafkaTopic; None where that object is gone by now."""
        known = self._known_topic(body)
        if known is None or known.meta.uid != body["metadata"]["uid"]:
            return None
        return self.put_topic(body)

    def put_listed_topic(self, body: Mapping[str, Any]) -> KafkaTopic:
        """Remember a KafkaTopic as a new list shows it. Raises SpecError.

        A list is where a watch starts, so it counts even when it shows less than is known: the API server's data may
        have been restored from a backup, and what a slow one misses follows as events.
        """
        known = self._known_topic(body)
        if known is not None and known.meta.resource_version == _version(body):
            return known
        return self.keep_topic(KafkaTopic.from_object(body))

    def _known_topic(self, body: Mapping[str, Any]) -> KafkaTopic | None:
        metadata = body["metadata"]
        return self.topics.get(ObjectKey(metadata["namespace"], metadata["name"]))

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

    def put_topology_answer(self, body: Mapping[str, Any]) -> None:
        """Remember what the answer to a write says of a RackTopology, unless that is gone by now or newer is known."""
        metadata = body["metadata"]
        known = self.topologies.get(ObjectKey(metadata["namespace"], metadata["name"]))
        if (
            known is not None
            and known.meta.uid == metadata["uid"]
            and _is_older(known.meta.resource_version, _version(body))
        ):
            self.put_topology(body)

    def drop_topology(self, key: ObjectKey) -> None:
        """Forget a RackTopology."""
        self.topologies.pop(key, None)
        self._clusters.pop(key, None)
        self.scans.pop(key, None)

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


def _version(body: Mapping[str, Any]) -> str:
    return str(body["metadata"].get("resourceVersion", ""))


def _is_older(version: str, other: str) -> bool:
    """Resource versions of one kind compare as integers (KEP-5504); another API server's are taken as they come."""
    if version.isdecimal() and other.isdecimal():
        return int(version) < int(other)
    return version != other


def _discard(index: dict[Any, set[ObjectKey]], at: Any, key: ObjectKey) -> None:
    keys = index.get(at)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[at]
