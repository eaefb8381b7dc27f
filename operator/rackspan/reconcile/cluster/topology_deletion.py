"""Which KafkaTopics block the deletion of a RackTopology, and how a person confirms deletions on it. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from rackspan.api.labels import CONFIRM_DELETIONS
from rackspan.api.reasons import Reason
from rackspan.core.text import plural
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import HeldDeletions, RackTopology
    from rackspan.reconcile.ports import Terminating

_NAMED = 3
"""KafkaTopics of a namespace that a message names."""
_NAMESPACES = 10
"""Namespaces with waiting deletions that a message names."""


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


def how_to_confirm(topology: RackTopology, waiting: Collection[ObjectKey], held: Sequence[HeldDeletions]) -> str:
    """The message of the condition DeletionsHeld."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for key in sorted(waiting):
        names[key.namespace].append(key.name)
    told = held[:_NAMESPACES]
    listed = "; ".join(
        f"{one.count} of namespace {one.namespace} ({_named(names[one.namespace])}), confirmed by {one.confirmation}"
        for one in told
    )
    count, others = len(waiting) - sum(one.count for one in told), len(names) - len(told)
    more = f"; {count:,} more in {plural(others, 'other namespace')}: see status.deletions.held" if others else ""
    return (
        f"{plural(len(waiting), 'deletion')} {'waits' if len(waiting) == 1 else 'wait'} for a person: "
        f"more than {topology.spec.max_deletions_per_minute} of a namespace were asked for within a minute, "
        f"or the namespace is being deleted. {listed}{more}. "
        "To delete the topics of a namespace and all that is in them: "
        f"kubectl annotate --namespace {topology.meta.namespace} racktopology {topology.meta.name} "
        f"{CONFIRM_DELETIONS}={told[0].confirmation if told else ''}. "
        "To keep a topic, set its object's deletionPolicy to Retain"
    )


def _named(names: Sequence[ObjectKey] | Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return ", ".join(map(str, names[:_NAMED])) + (f" and {rest} more" if rest > 0 else "")
