"""Which KafkaTopics block the deletion of a RackTopology, and how a person confirms deletions on it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.labels import CONFIRM_DELETIONS
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.ports import Terminating

_NAMED = 3
"""KafkaTopics that a message names."""


def blocking_topics(
    topology: RackTopology, dependents: Iterable[KafkaTopic], terminating: Terminating
) -> tuple[ObjectKey, ...]:
    """The KafkaTopics for which the finalizer of a RackTopology is kept: their topics are to be deleted through it.

    In a terminating namespace only its own terminating KafkaTopics count, so that other namespaces cannot hold it up.
    While a CustomResourceDefinition is deleted none do. Topics of KafkaTopics that do not count stay in Kafka.
    """
    if terminating.definitions:
        return ()
    own = topology.meta.namespace
    namespace_ends = own in terminating.namespaces
    return tuple(
        sorted(
            topic.key
            for topic in dependents
            if not namespace_ends or (topic.meta.is_deleting and topic.meta.namespace == own)
        )
    )


def in_use_failure(keys: Sequence[ObjectKey]) -> Failure:
    """The problem that a terminating RackTopology reports while KafkaTopics block it."""
    many = "KafkaTopics have" if len(keys) > 1 else "KafkaTopic has"
    return Failure(
        Reason.TOPOLOGY_IN_USE,
        f"it is being deleted, and goes last: {len(keys)} {many} deletionPolicy Delete, and only through it "
        f"can their topics be deleted ({_named(keys)}); delete them, or set their deletionPolicy to Retain",
        Remedy.SPEC,
    )


def how_to_confirm(topology: RackTopology, waiting: Iterable[ObjectKey]) -> str:
    """The message of the condition DeletionsHeld."""
    keys = sorted(waiting)
    return (
        f"{len(keys)} {'deletion waits' if len(keys) == 1 else 'deletions wait'} for a person ({_named(keys)}): "
        f"more than {topology.spec.max_deletions_per_minute} were asked for within a minute, "
        "or their namespace is being deleted. "
        f"To delete these topics and all that is in them: kubectl annotate --namespace {topology.meta.namespace} "
        f"racktopology {topology.meta.name} {CONFIRM_DELETIONS}={len(keys)}. "
        "To keep a topic, set its object's deletionPolicy to Retain"
    )


def _named(keys: Sequence[ObjectKey]) -> str:
    rest = len(keys) - _NAMED
    return ", ".join(map(str, keys[:_NAMED])) + (f" and {rest} more" if rest > 0 else "")
