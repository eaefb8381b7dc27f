"""Decides which KafkaTopics may use a topology, for which topics, and which of several owns a topic. Pure.

The operator and the scans use the same checks: scans with their own objects, the operator with its cache (`refusals`).
These checks depend on Kubernetes alone. `adoption_refused`, which depends on the topic in Kafka, is checked later.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rackspan.api.conditions import READY, reason_of
from rackspan.api.kafkatopic import durability_of, requirements_of
from rackspan.api.policies import Granted
from rackspan.api.racktopology import INTERNAL_PREFIX
from rackspan.api.reasons import Reason
from rackspan.core.requirements import ClusterRequirements, TopicRequirements
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.cache import Cache

_REFUSED = (Reason.ADOPTION_NOT_ALLOWED, Reason.INTERNAL_TOPIC)
"""The Ready reasons of objects that may not have their topics, which then count as unmanaged."""


def refusal(topic: KafkaTopic, topology: RackTopology, namespaces: Mapping[str, Mapping[str, str]]) -> Failure | None:
    """Return why the topology does not admit the object, or None. `namespaces` has the labels of each namespace."""
    labels = namespaces.get(topic.meta.namespace, {})
    return (
        _namespace_not_allowed(topic, topology, labels)
        or _internal_topic(topic, topology)
        or _name_not_allowed(topic, topology)
    )


def _namespace_not_allowed(topic: KafkaTopic, topology: RackTopology, labels: Mapping[str, str]) -> Failure | None:
    namespace, rule = topic.meta.namespace, topology.spec.allowed_namespaces
    if rule.admits(namespace, labels, own=topology.meta.namespace):
        return None
    return Failure(
        Reason.NAMESPACE_NOT_ALLOWED,
        f"topology {topology.key} is not open to namespace {namespace} "
        f"(its spec.allowedNamespaces.from is {rule.from_})",
        Remedy.SPEC,
    )


def _internal_topic(topic: KafkaTopic, topology: RackTopology) -> Failure | None:
    name = topic.topic_name
    if not name.startswith(INTERNAL_PREFIX) or name in topology.spec.internal_topics:
        return None
    return internal(name, topology.key)


def _name_not_allowed(topic: KafkaTopic, topology: RackTopology) -> Failure | None:
    """Check the prefixes, which restrict other namespaces only. For an internal topic they must begin with `__`."""
    name, namespace = topic.topic_name, topic.meta.namespace
    if namespace == topology.meta.namespace:
        return None
    prefixes = topology.spec.allowed_namespaces.prefixes(namespace)
    if name.startswith(INTERNAL_PREFIX):
        prefixes = tuple(prefix for prefix in prefixes or () if prefix.startswith(INTERNAL_PREFIX))
    if prefixes is None or name.startswith(prefixes):
        return None
    given = f"begin with one of: {', '.join(prefixes)}" if prefixes else "are not internal ones"
    return Failure(
        Reason.TOPIC_NAME_NOT_ALLOWED,
        f"topology {topology.key} does not give topic {name} to namespace {namespace}, whose topics {given} "
        "(see its spec.allowedNamespaces.topicPrefixes)",
        Remedy.SPEC,
    )


def internal(name: str, topology: ObjectKey) -> Failure:
    """Return the failure of an internal topic that `spec.internalTopics` does not list."""
    return Failure(
        Reason.INTERNAL_TOPIC,
        f"topic {name} is internal to Kafka or to a tool: it is left alone unless spec.internalTopics of topology "
        f"{topology} lists it",
        Remedy.SPEC,
    )


# --- topics that are in Kafka already ---------------------------------------------------------------------------------


def adoption_refused(topic: KafkaTopic, topology: ObjectKey, adoption: Granted) -> Failure | None:
    """Return why the object may not adopt a topic that was not created for it, or None if it may."""
    if adoption.to(topic.meta.namespace, topology.namespace):
        return None
    helps = (
        f"an object in namespace {topology.namespace} may, or set it to Allowed"
        if adoption == Granted.OWN
        else ("to take topics over, set it to Own or Allowed")
    )
    return Failure(
        Reason.ADOPTION_NOT_ALLOWED,
        f"topic {topic.topic_name} is in Kafka already and was not made for this object, which may not take it over: "
        f"spec.adoption of topology {topology} is {adoption}; {helps}",
        Remedy.SPEC,
    )


def in_another_cluster(topic: KafkaTopic, cluster_id: str) -> str:
    """Return a text that the object's topic is not in the cluster that its topology is connected to now."""
    where = f"Kafka cluster {topic.status.cluster_id}, and the topology is now connected to {cluster_id}"
    return f"topic {topic.topic_name} belongs to {where}"


# --- several objects for one topic ------------------------------------------------------------------------------------


def owner(claims: Iterable[tuple[KafkaTopic, RackTopology]]) -> KafkaTopic | None:
    """Return the owner among admitted objects for one Kafka topic, each with its topology, or None if there are none.

    In this order: the object whose status has the topic's id; objects that may adopt it, so that no other namespace can
    reserve a name of the topology's namespace; the oldest; the first by uid, since creation times are whole seconds.
    """
    first = min(claims, key=_rank, default=None)
    return None if first is None else first[0]


def declared(topology: RackTopology, topics: Iterable[KafkaTopic]) -> Mapping[str, KafkaTopic]:
    """Return the KafkaTopics that own topics, by topic name. Topics without a KafkaTopic are unmanaged.

    `topics` are those that the topology admits. Of several for one topic, the one that the operator reconciles counts.
    """
    claims: defaultdict[str, list[tuple[KafkaTopic, RackTopology]]] = defaultdict(list)
    for topic in topics:
        if topic.topology == topology.key:
            claims[topic.topic_name].append((topic, topology))
    return {
        name: owned_by
        for name, rivals in claims.items()
        if (owned_by := owner(rivals)) is not None
        and not owned_by.meta.is_deleting
        and reason_of(owned_by.status.conditions, READY) not in _REFUSED
    }


def cluster_requirements(topology: RackTopology, topics: Iterable[KafkaTopic]) -> ClusterRequirements:
    """Return the requirements of each topic that has a KafkaTopic, and the defaults for the others.

    `topics` are those that the topology admits. Of several for one topic, the one that the operator reconciles counts.
    """
    defaults = topology.spec.defaults.durability
    of_topic = {name: requirements_of(topic.spec, defaults) for name, topic in declared(topology, topics).items()}
    return ClusterRequirements(of_topic, TopicRequirements(durability=durability_of(defaults)), managed=True)


def _rank(claim: tuple[KafkaTopic, RackTopology]) -> tuple[bool, bool, tuple[str, str]]:
    topic, topology = claim
    adopts = topology.spec.adoption.to(topic.meta.namespace, topology.meta.namespace)
    return topic.status.topic_id is None, not adopts, topic.meta.age


def rival(topic: KafkaTopic, decides: KafkaTopic | None) -> Failure | None:
    """Return the conflict with `decides`, the owner of the same Kafka topic, or None if the owner is this object.

    The message names an owner of another namespace only to objects in the topology's namespace.
    """
    if decides is None or decides.key == topic.key:
        return None
    known = topic.meta.namespace in (decides.meta.namespace, decides.topology.namespace)
    who = f"KafkaTopic {decides.key}" if known else "a KafkaTopic of another namespace"
    return Failure(
        Reason.TOPIC_CONFLICT,
        f"{who} already declares topic {topic.topic_name}; "
        "delete one of the two, or create this one again with another spec.topicName",
        Remedy.SPEC,
    )


def refusals(cache: Cache) -> Callable[[KafkaTopic], Failure | None]:
    """Return a function that returns why a topic is not admitted, or None. Use it only until the cache changes.

    The function finds the owner of each Kafka topic once, however many objects claim it. A topic whose topology does
    not exist is not refused here.
    """
    owners: dict[tuple[ObjectKey, str], KafkaTopic | None] = {}

    def refused(topic: KafkaTopic) -> Failure | None:
        topology = cache.topologies.get(topic.topology)
        if topology is None:
            return None
        failure = refusal(topic, topology, cache.namespaces) or _terminating(topic, topology)
        if failure is not None:
            return failure
        name = topic.topology, topic.topic_name
        if name not in owners:
            owners[name] = _owner(topic, cache)
        return rival(topic, owners[name])

    return refused


def _owner(topic: KafkaTopic, cache: Cache) -> KafkaTopic | None:
    """Return the object that owns the Kafka topic, among those that are admitted."""
    return owner(
        (claim, topology)
        for claim in cache.claims(topic)
        if (topology := cache.topologies.get(claim.topology)) is not None
        and refusal(claim, topology, cache.namespaces) is None
    )


def _terminating(topic: KafkaTopic, topology: RackTopology) -> Failure | None:
    """Return why a topology that is being deleted admits no new topic, which would block its deletion, or None."""
    if not topology.meta.is_deleting or topic.status.topic_id is not None:
        return None
    return Failure(Reason.TOPOLOGY_NOT_FOUND, f"RackTopology {topic.topology} is being deleted", Remedy.SPEC)
