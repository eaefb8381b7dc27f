"""Keeps a RackTopology while it is needed to delete topics, to release cordons, and to clear throttles.

Reports the KafkaTopics that need the RackTopology, and how a user confirms deletions on it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from rackspan.api.labels import CONFIRM_DELETIONS
from rackspan.api.racktopology import KIND
from rackspan.api.reasons import Reason
from rackspan.core.text import few, plural
from rackspan.reconcile.cluster.cordons import cordons_left
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.writers import has_finalizer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import HeldDeletions, RackTopology
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.ports import Terminating


_NAMED = 3
"""The most KafkaTopics per namespace in a message."""
_NAMESPACES = 10
"""The most namespaces with waiting deletions in a message."""
_log = logging.getLogger("rackspan.reconcile")


def blocking_topics(
    topology: RackTopology, dependents: Iterable[KafkaTopic], terminating: Terminating
) -> tuple[ObjectKey, ...]:
    """Return the KafkaTopics that keep the finalizer of a RackTopology, because it is needed to delete their topics.

    In a terminating namespace, only its own terminating KafkaTopics count, so that other namespaces cannot block it.
    While a CustomResourceDefinition is being deleted, none count. Topics of the KafkaTopics not counted stay in Kafka.
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
    """Return the problem that a terminating RackTopology reports while KafkaTopics block it."""
    many = "KafkaTopics have" if len(keys) > 1 else "KafkaTopic has"
    named = few([*map(str, keys)], _NAMED)
    return Failure(
        Reason.TOPOLOGY_IN_USE,
        f"it is being deleted, and waits: {len(keys)} {many} deletionPolicy Delete, and their "
        f"topics can be deleted only while it exists ({named}); delete them, or set their deletionPolicy to Retain",
        Remedy.SPEC,
    )


def how_to_confirm(topology: RackTopology, waiting: Collection[ObjectKey], held: Sequence[HeldDeletions]) -> str:
    """Return the message of the condition DeletionsHeld."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for key in sorted(waiting):
        names[key.namespace].append(key.name)
    first = held[:_NAMESPACES]
    listed = "; ".join(
        f"{one.count} of namespace {one.namespace} ({few(names[one.namespace], _NAMED)}), "
        f"confirmed by {one.confirmation}"
        for one in first
    )
    count, others = len(waiting) - sum(one.count for one in first), len(names) - len(first)
    more = f"; {count:,} more in {plural(others, 'other namespace')}: see status.deletions.held" if others else ""
    return (
        f"{plural(len(waiting), 'deletion')} {'waits' if len(waiting) == 1 else 'wait'} for a person: "
        f"more than {topology.spec.max_deletions_per_minute} of a namespace were asked for within a minute, "
        f"or the namespace is being deleted. {listed}{more}. "
        "To delete the topics of a namespace and all that is in them: "
        f"kubectl annotate --namespace {topology.meta.namespace} racktopology {topology.meta.name} "
        f"{CONFIRM_DELETIONS}={first[0].confirmation if first else ''}. "
        "To keep a topic, set its object's deletionPolicy to Retain"
    )


class TopologyFinalizer:
    """The finalizer of one RackTopology: added while it exists, removed once nothing blocks its deletion.

    KafkaTopics, cordons and Reassignments with a finalizer block it. If Kafka is unreachable, Reassignments take a
    minute. `dependents()` returns the KafkaTopics whose topics are to be deleted with them, `cordoned()` the brokers
    that the operator has cordoned, and `releases()` whether those cordons can still be released.
    """

    def __init__(
        self,
        key: ObjectKey,
        dependencies: Dependencies,
        dependents: Callable[[], Collection[KafkaTopic]],
        cordoned: Callable[[RackTopology], Collection[int]],
        releases: Callable[[RackTopology], bool],
    ) -> None:
        self.problem: Failure | None = None
        """What blocks the deletion of the RackTopology, or None if nothing does or it is not being deleted."""
        self._key = key
        self._dependencies = dependencies
        self._dependents = dependents
        self._cordoned = cordoned
        self._releases = releases

    async def reconcile(self) -> None:
        """Add or remove the finalizer as needed. Never raises: a failed write is logged and retried next time."""
        try:
            await self._reconcile()
        except FailureError as error:
            _log.warning("topology %s: its finalizer waits: %s", self._key, error)

    async def _reconcile(self) -> None:
        topology = self._dependencies.cache.topologies.get(self._key)
        if topology is None:
            return
        written = None
        if not topology.meta.is_deleting:
            self.problem = None
            if not has_finalizer(topology.meta):
                written = await self._dependencies.finalizers.add(KIND, topology.meta)
        elif has_finalizer(topology.meta):
            keys: Collection[ObjectKey] = ()
            if dependents := self._dependents():
                terminating = await self._dependencies.kube.terminating({self._key.namespace})
                keys = blocking_topics(topology, dependents, terminating)
            self.problem = in_use_failure(tuple(keys)) if keys else None
            if not keys and not self._releases(topology) and not self._has_reassignments():
                written = await self._dependencies.finalizers.remove(KIND, topology.meta)
                left = self._cordoned(topology)
                if written is not None and left:  # else the removal is retried, and they may be released by then
                    event = cordons_left(topology, left, ", which could not be asked to release it")
                    self._dependencies.kube.record_event(event)
        if written is not None:
            self._dependencies.cache.put_topology_answer(written)

    def _has_reassignments(self) -> bool:
        """Return whether throttles of its Reassignments may be left, which cannot be cleared after its deletion."""
        mine = self._dependencies.cache.reassignments_of(self._key)
        return any(has_finalizer(one.meta) for one in mine)
