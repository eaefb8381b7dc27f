"""What the API server has told: nodes, pods, namespaces, topologies and topics, and who claims which Kafka topic.

The only mutable picture of Kubernetes in the operator. It belongs to the event loop; nothing here waits.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rackspan.api import kafkatopic, racktopology
from rackspan.api.errors import SpecError
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.racktopology import RackTopology
from rackspan.reconcile.runtime.namespace_quota import DEFAULT_TOPOLOGIES_PER_NAMESPACE, NamespaceQuota
from rackspan.reconcile.runtime.object_versions import ObjectVersions, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from rackspan.api.compliancereport import ComplianceReportStatus
    from rackspan.api.meta import ObjectKey

T = TypeVar("T", KafkaTopic, RackTopology)


_DIGITS = 11
"""More than the highest broker id has: of a longer number, so many say that no broker can have it."""


@dataclass(frozen=True, slots=True)
class BrokerPod:
    """A pod that can be a broker, reduced to what tells which runs where: of annotations, those that are numbers."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node: str | None


class Cache:
    """Objects by key. `versions` tells what is news before it is put here; `put_*` and `drop_*` are idempotent."""

    def __init__(self, topologies_per_namespace: int = DEFAULT_TOPOLOGIES_PER_NAMESPACE) -> None:
        self.versions = ObjectVersions()
        self.quota = NamespaceQuota(topologies_per_namespace)
        self.nodes: dict[str, Mapping[str, str]] = {}
        self.pods: dict[ObjectKey, BrokerPod] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.topologies: dict[ObjectKey, RackTopology] = {}
        self.topics: dict[ObjectKey, KafkaTopic] = {}
        self.reports: dict[ObjectKey, ComplianceReportStatus] = {}
        """What the last scan of a topology reported, by the topology."""
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
        """All objects, this one among them, for one topic of one Kafka cluster, as far as their topologies share it."""
        found = (self.topics[key] for key in self._claims.get(topic.topic_name, ()))
        return [claim for claim in found if self._share_cluster(topic.topology, claim.topology)]

    def _share_cluster(self, one: ObjectKey, other: ObjectKey) -> bool:
        """Whether two topologies lead to one Kafka cluster, and trust each other's namespaces to say so.

        A cluster's id is what a server says of itself, and no secret: a stranger's proves nothing.
        """
        if one == other:
            return True
        cluster = self._cluster_of(one)
        if not cluster or self._cluster_of(other) != cluster:
            return False
        return self._trusts(one, other.namespace) and self._trusts(other, one.namespace)

    def _trusts(self, key: ObjectKey, namespace: str) -> bool:
        topology = self.topologies.get(key)
        return key.namespace == namespace or (topology is not None and namespace in topology.spec.shared_with)

    def set_cluster_id(self, topology: ObjectKey, cluster_id: str) -> None:
        """Remember which Kafka cluster answers behind a topology."""
        self._clusters[topology] = cluster_id

    def _cluster_of(self, key: ObjectKey) -> str | None:
        """The cluster that answered, else the one that answered before the operator was started."""
        topology = self.topologies.get(key)
        return self._clusters.get(key) or (topology.status.cluster_id if topology else None)

    def put_topic(self, body: Mapping[str, Any]) -> KafkaTopic:
        """Remember a KafkaTopic. Raises SpecError; an object that cannot be read takes its predecessor's place."""
        return self.keep_topic(self._read(KafkaTopic, body, self.topics, self.drop_topic))

    def put_answer(self, body: Mapping[str, Any]) -> KafkaTopic | None:
        """Remember what the answer to a write says of a KafkaTopic; what is known then, None where it is gone."""
        if self.versions.record_response(kafkatopic.KIND, body):
            return self.put_topic(body)
        known = self.topics.get(key_of(body))
        return known if known is not None and known.meta.uid == body["metadata"]["uid"] else None

    def keep_topic(self, topic: KafkaTopic) -> KafkaTopic:
        """Remember a KafkaTopic, read already."""
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
        """Remember a RackTopology. Raises SpecError; an object that cannot be read takes its predecessor's place."""
        topology = self._read(RackTopology, body, self.topologies, self.drop_topology)
        self.topologies[topology.key] = topology
        self.quota.put(topology)
        return topology

    def put_topology_answer(self, body: Mapping[str, Any]) -> None:
        """Remember what the answer to a write says of a RackTopology, unless that is gone by now or newer is known."""
        if self.versions.record_response(racktopology.KIND, body):
            self.put_topology(body)

    def _read(
        self, kind: type[T], body: Mapping[str, Any], known: Mapping[ObjectKey, T], drop: Callable[[ObjectKey], object]
    ) -> T:
        try:
            return kind.from_object(body)
        except SpecError:
            before = known.get(key_of(body))
            if before is not None and before.meta.uid != body["metadata"].get("uid"):
                drop(before.key)
            raise

    def drop_topology(self, key: ObjectKey) -> None:
        """Forget a RackTopology."""
        self.topologies.pop(key, None)
        self.quota.drop(key)
        self._clusters.pop(key, None)

    def put_node(self, body: Mapping[str, Any]) -> bool:
        """Remember a node's labels; whether they changed."""
        name, labels = body["metadata"]["name"], _shared(body["metadata"].get("labels") or {})
        changed = self.nodes.get(name) != labels
        self.nodes[name] = labels
        return changed

    def put_pod(self, body: Mapping[str, Any]) -> bool:
        """Remember what a pod says of a broker; whether that changed. A finished pod runs no broker.

        Topologies come and change at any time, so what is kept does not depend on them: a pod whose name ends in no
        number, and none of whose labels and annotations is one, is no broker to any of them, and is not kept.
        """
        key = key_of(body)
        facts = _broker_pod(key, body)
        changed = self.pods.get(key) != facts
        if facts is None:
            self.pods.pop(key, None)
        else:
            self.pods[key] = facts
        return changed

    def put_namespace(self, body: Mapping[str, Any]) -> bool:
        """Remember a namespace's labels; whether they changed."""
        name, labels = body["metadata"]["name"], dict(body["metadata"].get("labels") or {})
        changed = self.namespaces.get(name) != labels
        self.namespaces[name] = labels
        return changed


def is_number(text: str) -> bool:
    """Whether a pod's name, label or annotation can say a broker id: digits of ASCII, any number of them."""
    return text.isascii() and text.isdigit()


def _broker_pod(key: ObjectKey, body: Mapping[str, Any]) -> BrokerPod | None:
    """None for a pod that can be no broker."""
    if (body.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return None
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    numbers = {name: text for name, text in (metadata.get("annotations") or {}).items() if is_number(text)}
    if not numbers and not is_number(key.name.rpartition("-")[2]) and not any(map(is_number, labels.values())):
        return None
    # A pod's owner writes annotations as long as a book.
    short = {name: text.lstrip("0")[:_DIGITS] or "0" for name, text in numbers.items()}
    node = (body.get("spec") or {}).get("nodeName")
    return BrokerPod(sys.intern(key.namespace), key.name, _shared(labels), _shared(short), node and sys.intern(node))


def _shared(labels: Mapping[str, str]) -> dict[str, str]:
    """The same labels, made of words that all objects share: most pods and nodes have most of theirs in common."""
    return {sys.intern(key): sys.intern(value) for key, value in labels.items()}


def _discard(index: dict[Any, set[ObjectKey]], at: Any, key: ObjectKey) -> None:
    keys = index.get(at)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[at]
