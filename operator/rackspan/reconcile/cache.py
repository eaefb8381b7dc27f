"""Cached Kubernetes objects: Nodes, Pods, Namespaces, RackTopologies, KafkaTopics and the Kafka topic that each claims.

The only mutable copy of Kubernetes objects in the operator. It belongs to the event loop, and no method waits.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from rackspan.api import kafkatopic, racktopology, reassignment
from rackspan.api.codec import SpecError
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.labels import RACK
from rackspan.api.racktopology import RackTopology
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import Reassignment
from rackspan.reconcile.failures import Failure, Remedy, invalid_spec
from rackspan.reconcile.runtime.informer import ObjectVersions, key_of
from rackspan.reconcile.runtime.namespaces import DEFAULT_TOPOLOGIES_PER_NAMESPACE, NamespaceQuota

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rackspan.api.compliancereport import ComplianceReport, ComplianceReportStatus
    from rackspan.api.meta import ObjectKey


Object = TypeVar("Object", KafkaTopic, RackTopology)

_DIGITS = 11
"""The digits kept of a number. The highest broker id has fewer, so a longer number still matches no broker."""
_MOST_LABELS = 64
"""The most labels, and the most numeric annotations, of a pod that can be a broker."""
_LONGEST_RACK = 1_000
"""The characters kept of a pod's rack, which the pod's owner may change."""


@dataclass(frozen=True, slots=True)
class BrokerPod:
    """A pod that can be a broker, reduced to what shows its broker id and node. Only numeric annotations are kept."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node: str | None
    rack: str | None = field(default=None, compare=False)
    """The rack annotation that users read, cut if it is longer than any rack."""


class Cache:
    """Objects by key. `versions` decides first whether an event is new. `put_*` and `drop_*` are idempotent."""

    def __init__(self, topologies_per_namespace: int = DEFAULT_TOPOLOGIES_PER_NAMESPACE) -> None:
        self.versions = ObjectVersions()
        self.quota = NamespaceQuota(topologies_per_namespace)
        self.nodes: dict[str, Mapping[str, str]] = {}
        self.pods: dict[ObjectKey, BrokerPod] = {}
        self._pods_in: defaultdict[str, dict[ObjectKey, BrokerPod]] = defaultdict(dict)
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.topologies: dict[ObjectKey, RackTopology] = {}
        self.topics: dict[ObjectKey, KafkaTopic] = {}
        self.reports: dict[ObjectKey, ComplianceReport] = {}
        """The report of the last scan, by RackTopology. See `report_of`."""
        self.reassignments: dict[ObjectKey, Reassignment] = {}
        self.left_out: frozenset[str] = frozenset()
        """Watched namespaces that the API server denies reading. The cached state of their objects may be outdated."""
        self._topics_of: defaultdict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        self._topics_from: defaultdict[tuple[ObjectKey, str], set[ObjectKey]] = defaultdict(set)
        self._claims: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._reassignments_of: defaultdict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        self._clusters: dict[ObjectKey, str] = {}

    def is_left_out(self, topic: KafkaTopic) -> bool:
        """Return whether the operator may not read the namespace of the object or of its topology."""
        return not self.left_out.isdisjoint((topic.meta.namespace, topic.topology.namespace))

    def topics_of(self, topology: ObjectKey) -> Collection[ObjectKey]:
        """Return the keys of the KafkaTopics that name this topology."""
        return tuple(self._topics_of.get(topology, ()))

    def topics_from(self, topology: ObjectKey, namespace: str) -> Collection[KafkaTopic]:
        """Return the KafkaTopics of one namespace that name this topology."""
        return [self.topics[key] for key in self._topics_from.get((topology, namespace), ())]

    def topics_named(self, topology: ObjectKey, name: str) -> Collection[KafkaTopic]:
        """Return the KafkaTopics of this topology that claim the Kafka topic `name`."""
        found = (self.topics[key] for key in self._claims.get(name, ()))
        return [topic for topic in found if topic.topology == topology]

    def claims(self, topic: KafkaTopic) -> Collection[KafkaTopic]:
        """Return the KafkaTopics that claim the same topic in the same Kafka cluster, including this KafkaTopic.

        KafkaTopics of another topology count only if both topologies share the cluster, see `share_cluster`.
        """
        keys: Collection[ObjectKey] = self._claims.get(topic.topic_name, set())
        if not self._cluster_of(topic.topology):  # users can name any number of topologies that do not exist
            keys = self._topics_of.get(topic.topology, set()).intersection(keys)
        found = (self.topics[key] for key in keys)
        return [claim for claim in found if self.share_cluster(topic.topology, claim.topology)]

    def has_rivals(self, topic: KafkaTopic) -> bool:
        """Return whether other KafkaTopics, of any topology, claim a topic with the same name."""
        keys = self._claims.get(topic.topic_name, ())
        return len(keys) > (topic.key in keys)

    def claimed_by_others(self, topology: ObjectKey) -> Collection[str]:
        """Return the topics claimed by KafkaTopics of other topologies that share the cluster with this topology."""
        sharing = [key for key in self._topics_of if key != topology and self.share_cluster(topology, key)]
        return {self.topics[key].topic_name for other in sharing for key in self._topics_of[other]}

    def share_cluster(self, one: ObjectKey, other: ObjectKey) -> bool:
        """Return whether two topologies refer to one Kafka cluster, and each trusts the other's namespace.

        A topology trusts its own namespace and those in `sharedWith`. The cluster id alone proves nothing: it is not
        secret, and any server can claim it.
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
        """Store the id of the Kafka cluster of a topology."""
        self._clusters[topology] = cluster_id

    def _cluster_of(self, key: ObjectKey) -> str | None:
        """Return the cluster id that this process has seen, else the cluster id in the status."""
        topology = self.topologies.get(key)
        return self._clusters.get(key) or (topology.status.cluster_id if topology else None)

    def put_topic(self, body: Mapping[str, Any]) -> KafkaTopic:
        """Store a KafkaTopic from its API object. Raises SpecError if not even the name of its topic can be read.

        If its spec was never readable, the topic counts as claimed: it is neither given to another object nor treated
        as a topic without a KafkaTopic.
        """
        try:
            topic = self._read(KafkaTopic, body, self.topics)
        except SpecError:
            topic = KafkaTopic.claim(body)
        return self.keep_topic(topic)

    def _read(self, cls: type[Object], body: Mapping[str, Any], known: Mapping[ObjectKey, Object]) -> Object:
        """Return an object. If its new spec cannot be read, return the known object with its new metadata.

        This happens if the definitions are newer than the operator. The object's pause and deletion count at once.
        """
        key = key_of(body)
        try:
            found = cls.from_object(body)
        except SpecError as error:
            self.versions.unreadable[cls.__name__, key] = str(error)
            before = known.get(key)
            if before is None or before.meta.uid != body["metadata"].get("uid"):
                raise
            return before.with_unread_spec(body)
        self.versions.unreadable.pop((cls.__name__, key), None)
        return found

    def unusable(self, topology: ObjectKey) -> Failure | None:
        """Return why nothing is done for a RackTopology, above its namespace's quota or with an unreadable spec."""
        error = self.versions.unreadable.get((racktopology.KIND, topology))
        return self.quota.over_quota(topology) or (None if error is None else invalid_spec(error).failure)

    def has_unreadable_spec(self, topic: KafkaTopic) -> bool:
        """Return whether the newest version of the KafkaTopic's spec cannot be read."""
        return (kafkatopic.KIND, topic.key) in self.versions.unreadable

    def unreadable(self, topic: KafkaTopic) -> Failure | None:
        """Return that the spec of a KafkaTopic cannot be read, or that of its RackTopology never could, or None."""
        why = self.versions.unreadable
        if (error := why.get((kafkatopic.KIND, topic.key))) is not None:
            return invalid_spec(error).failure
        if topic.topology in self.topologies or (error := why.get((racktopology.KIND, topic.topology))) is None:
            return None
        return Failure(
            Reason.TOPOLOGY_NOT_READY, f"RackTopology {topic.topology} cannot be read: {error}", Remedy.RETRY
        )

    def put_answer(self, body: Mapping[str, Any]) -> KafkaTopic | None:
        """Store a KafkaTopic from a write response unless a newer one is known. Return the newest, None if deleted."""
        if self.versions.record_response(kafkatopic.KIND, body):
            return self.put_topic(body)
        known = self.topics.get(key_of(body))
        return known if known is not None and known.meta.uid == body["metadata"]["uid"] else None

    def keep_topic(self, topic: KafkaTopic) -> KafkaTopic:
        """Store a decoded KafkaTopic."""
        self.drop_topic(topic.key)
        self.topics[topic.key] = topic
        self._topics_of[topic.topology].add(topic.key)
        self._topics_from[topic.topology, topic.key.namespace].add(topic.key)
        self._claims[topic.topic_name].add(topic.key)
        return topic

    def drop_topic(self, key: ObjectKey) -> KafkaTopic | None:
        """Remove a KafkaTopic and return it, or None if it is not known."""
        topic = self.topics.pop(key, None)
        if topic is not None:
            _discard(self._topics_of, topic.topology, key)
            _discard(self._topics_from, (topic.topology, key.namespace), key)
            _discard(self._claims, topic.topic_name, key)
        return topic

    def put_topology(self, body: Mapping[str, Any]) -> RackTopology:
        """Store a RackTopology from its API object. Raises SpecError if the object was never readable."""
        topology = self._read(RackTopology, body, self.topologies)
        self.topologies[topology.key] = topology
        self.quota.put(topology)
        return topology

    def report_of(self, topology: RackTopology) -> ComplianceReportStatus | None:
        """Return the report of this RackTopology's last scan, or None.

        The report of an earlier RackTopology with this name does not count. Kubernetes deletes it some time later.
        """
        report = self.reports.get(topology.key)
        if report is None or all(owner.uid != topology.meta.uid for owner in report.meta.owner_references):
            return None
        return report.status

    def put_topology_answer(self, body: Mapping[str, Any]) -> None:
        """Store a RackTopology from a write response, unless it is deleted or a newer one is known."""
        if self.versions.record_response(racktopology.KIND, body):
            self.put_topology(body)

    def drop_topology(self, key: ObjectKey) -> None:
        """Remove a RackTopology."""
        self.topologies.pop(key, None)
        self.quota.drop(key)
        self._clusters.pop(key, None)

    def put_reassignment(self, body: Mapping[str, Any]) -> Reassignment:
        """Store a Reassignment from its API object. Raises SpecError if the object cannot be read."""
        found = Reassignment.from_object(body)
        self.drop_reassignment(found.key)
        self.reassignments[found.key] = found
        self._reassignments_of[found.topology].add(found.key)
        return found

    def put_reassignment_answer(self, body: Mapping[str, Any]) -> None:
        """Store a Reassignment from a write response, unless it is deleted or a newer one is known."""
        if self.versions.record_response(reassignment.KIND, body):
            self.put_reassignment(body)

    def drop_reassignment(self, key: ObjectKey) -> Reassignment | None:
        """Remove a Reassignment and return it, or None if it is not known."""
        known = self.reassignments.pop(key, None)
        if known is not None:
            _discard(self._reassignments_of, known.topology, key)
        return known

    def reassignments_of(self, topology: ObjectKey) -> Collection[Reassignment]:
        """Return the Reassignments of this topology."""
        return [self.reassignments[key] for key in self._reassignments_of.get(topology, ())]

    def put_node(self, body: Mapping[str, Any]) -> bool:
        """Store a Node's labels. Return whether they changed."""
        return _put_labels(self.nodes, body)

    def put_pod(self, body: Mapping[str, Any]) -> bool:
        """Store what a pod says about a broker. Return whether that changed. A finished pod runs no broker.

        RackTopologies change at any time, so what is stored does not depend on them. A pod is stored only if it can be
        a broker of some RackTopology: its name ends in a number, or one of its labels or annotations is a number. A pod
        with more labels, or more numeric annotations, than brokers have is not stored.
        """
        key = key_of(body)
        facts = _broker_pod(key, body)
        changed = self.pods.get(key) != facts
        if facts is None:
            self.drop_pod(key)
        else:
            self.keep_pod(key, facts)
        return changed

    def keep_pod(self, key: ObjectKey, pod: BrokerPod) -> None:
        """Store a pod."""
        self.pods[key] = self._pods_in[key.namespace][key] = pod

    def drop_pod(self, key: ObjectKey) -> BrokerPod | None:
        """Remove a pod and return it, or None if it is not known."""
        pod = self.pods.pop(key, None)
        if pod is not None:
            del self._pods_in[key.namespace][key]
            if not self._pods_in[key.namespace]:
                del self._pods_in[key.namespace]
        return pod

    def pods_in(self, namespace: str) -> Collection[BrokerPod]:
        """Return the pods of a namespace. There may be many pods and topologies in others."""
        return self._pods_in.get(namespace, {}).values()

    def put_namespace(self, body: Mapping[str, Any]) -> bool:
        """Store a Namespace's labels. Return whether they changed."""
        return _put_labels(self.namespaces, body)


def is_number(text: str) -> bool:
    """Return whether a pod's name, label or annotation can be a broker id: only ASCII digits, in any number."""
    return text.isascii() and text.isdigit()


def _broker_pod(key: ObjectKey, body: Mapping[str, Any]) -> BrokerPod | None:
    """Return the pod, or None if it cannot be a broker."""
    if (body.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return None
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    numbers = {name: text for name, text in annotations.items() if is_number(text)}
    if max(len(labels), len(numbers)) > _MOST_LABELS:
        return None
    if not numbers and not is_number(key.name.rpartition("-")[2]) and not any(map(is_number, labels.values())):
        return None
    # A pod's owner can write very long annotations.
    short = {name: text.lstrip("0")[:_DIGITS] or "0" for name, text in numbers.items()}
    node = (body.get("spec") or {}).get("nodeName")
    rack = annotations.get(RACK)
    return BrokerPod(
        sys.intern(key.namespace),
        key.name,
        _shared(labels),
        _shared(short),
        node and sys.intern(node),
        rack and sys.intern(rack[:_LONGEST_RACK]),
    )


def _put_labels(known: dict[str, Mapping[str, str]], body: Mapping[str, Any]) -> bool:
    name, labels = body["metadata"]["name"], _shared(body["metadata"].get("labels") or {})
    changed = known.get(name) != labels
    known[name] = labels
    return changed


def _shared(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the same labels as interned strings, because most pods and nodes have most of their labels in common."""
    return {sys.intern(key): sys.intern(value) for key, value in labels.items()}


def _discard(index: dict[Any, set[ObjectKey]], at: Any, key: ObjectKey) -> None:
    keys = index.get(at)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[at]
