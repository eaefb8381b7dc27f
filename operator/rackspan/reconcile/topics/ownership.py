"""Which KafkaTopics may use a topology, for which topics, and which of two objects decides about one topic. Pure.

The operator and the scans admit by the same chain of checks. All of it depends on Kubernetes alone; what depends on the
topic that Kafka has (`adoption_refused`) comes after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.racktopology import INTERNAL_PREFIX, Adoption
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology


@dataclass(frozen=True, slots=True)
class TopicClaim:
    """A KafkaTopic, the RackTopology that it names, and the labels of its namespace."""

    topic: KafkaTopic
    topology: RackTopology
    labels: Mapping[str, str]

    @property
    def is_own(self) -> bool:
        """Whether the object is in the topology's namespace."""
        return self.topic.meta.namespace == self.topology.meta.namespace


def refusal(claim: TopicClaim) -> Failure | None:
    """Why the topology does not let the object have its topic; None where it does."""
    return next((found for check in _CHECKS if (found := check(claim)) is not None), None)


def _namespace_not_allowed(claim: TopicClaim) -> Failure | None:
    topic, topology = claim.topic, claim.topology
    namespace, rule = topic.meta.namespace, topology.spec.allowed_namespaces
    if rule.admits(namespace, claim.labels, own=topology.meta.namespace):
        return None
    return Failure(
        Reason.NAMESPACE_NOT_ALLOWED,
        f"topology {topology.key} is not open to namespace {namespace} "
        f"(its spec.allowedNamespaces.from is {rule.from_})",
        Remedy.SPEC,
    )


def _internal_topic(claim: TopicClaim) -> Failure | None:
    name, topology = claim.topic.topic_name, claim.topology
    if not name.startswith(INTERNAL_PREFIX) or name in topology.spec.internal_topics:
        return None
    return internal(name, topology.key)


def _name_not_allowed(claim: TopicClaim) -> Failure | None:
    """Names are given to other namespaces only; one for an internal topic has to be given as such."""
    name, topology, namespace = claim.topic.topic_name, claim.topology, claim.topic.meta.namespace
    if claim.is_own:
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


_CHECKS = (_namespace_not_allowed, _internal_topic, _name_not_allowed)


def internal(name: str, topology: ObjectKey) -> Failure:
    """What is told of an internal topic that the topology does not list."""
    return Failure(
        Reason.INTERNAL_TOPIC,
        f"topic {name} is internal to Kafka or to a tool: it is left alone unless spec.internalTopics of topology "
        f"{topology} lists it",
        Remedy.SPEC,
    )


# --- topics that are in Kafka already ---------------------------------------------------------------------------------


def may_adopt(namespace: str, own: str, adoption: Adoption) -> bool:
    """Whether an object of a namespace may take over a topic, by a topology of the namespace `own`."""
    match adoption:
        case Adoption.ALLOWED:
            return True
        case Adoption.OWN:
            return namespace == own
        case Adoption.NEVER:
            return False


def adoption_refused(topic: KafkaTopic, topology: ObjectKey, adoption: Adoption) -> Failure | None:
    """Why the object may not take over a topic that was not made for it; None where it may."""
    if may_adopt(topic.meta.namespace, topology.namespace, adoption):
        return None
    helps = (
        f"an object in namespace {topology.namespace} may, or set it to Allowed"
        if adoption == Adoption.OWN
        else ("to take topics over, set it to Own or Allowed")
    )
    return Failure(
        Reason.ADOPTION_NOT_ALLOWED,
        f"topic {topic.topic_name} is in Kafka already and was not made for this object, which may not take it over: "
        f"spec.adoption of topology {topology} is {adoption}; {helps}",
        Remedy.SPEC,
    )


# --- several objects for one topic ------------------------------------------------------------------------------------


def owner(claims: Iterable[TopicClaim]) -> KafkaTopic | None:
    """Which of several objects that were admitted for one Kafka topic decides; None where there is none.

    The one that has the topic. While none has it, those that may adopt it come first, so that nobody keeps a topic from
    the topology's own namespace by naming it early; then the oldest, and of those made in the same second, which is as
    exact as Kubernetes is, the first by uid.
    """
    first = min(claims, key=_rank, default=None)
    return None if first is None else first.topic


def _rank(claim: TopicClaim) -> tuple[bool, bool, tuple[str, str]]:
    meta, topology = claim.topic.meta, claim.topology
    adopts = may_adopt(meta.namespace, topology.meta.namespace, topology.spec.adoption)
    return claim.topic.status.topic_id is None, not adopts, meta.age


def rival(topic: KafkaTopic, decides: KafkaTopic | None) -> Failure | None:
    """The conflict with the object that decides about the same Kafka topic; None where that is this one.

    An object of another namespace is named only to the namespace of the topology that both go through.
    """
    if decides is None or decides.key == topic.key:
        return None
    known = topic.meta.namespace in (decides.meta.namespace, decides.topology.namespace)
    who = f"KafkaTopic {decides.key}" if known else "a KafkaTopic of another namespace"
    return Failure(
        Reason.TOPIC_CONFLICT,
        f"{who} already stands for topic {topic.topic_name}; "
        "delete one of the two, or make this one anew with another spec.topicName",
        Remedy.SPEC,
    )
