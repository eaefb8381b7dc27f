"""Which namespaces' KafkaTopics may use a topology, and which of two objects decides about one topic. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.racktopology import RackTopology


def not_allowed(topic: KafkaTopic, topology: RackTopology, labels: Mapping[str, str]) -> Failure | None:
    """Why the topic's namespace, which carries `labels`, may not use the topology; None where it may."""
    namespace, rule = topic.meta.namespace, topology.spec.allowed_namespaces
    if rule.admits(namespace, labels, own=topology.meta.namespace):
        return None
    return Failure(
        Reason.NAMESPACE_NOT_ALLOWED,
        f"topology {topology.key} is not open to namespace {namespace} "
        f"(its spec.allowedNamespaces.from is {rule.from_})",
        Remedy.SPEC,
    )


def owner(claims: Iterable[KafkaTopic]) -> KafkaTopic | None:
    """Which of several objects for one Kafka topic decides: the oldest; None where there is none.

    Of those made in the same second, which is as exact as Kubernetes is, the one that has the topic, then by uid.
    """
    return min(
        claims,
        key=lambda claim: (str(claim.meta.creation_timestamp), claim.status.topic_id is None, claim.meta.uid),
        default=None,
    )


def rival(topic: KafkaTopic, decides: KafkaTopic | None) -> Failure | None:
    """The conflict with the object that decides about the same Kafka topic; None where that is this one."""
    if decides is None or decides.key == topic.key:
        return None
    return Failure(
        Reason.TOPIC_CONFLICT,
        f"KafkaTopic {decides.key} is older and already stands for topic {topic.topic_name}; "
        "delete one of the two, or give this one another spec.topicName",
        Remedy.SPEC,
    )
