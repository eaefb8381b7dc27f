"""Keeps a RackTopology while it is needed: to delete topics, to release cordons, and to clear throttles.

Says which KafkaTopics these are, and how a person confirms deletions on the RackTopology.
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
"""KafkaTopics of a namespace that a message names."""
_NAMESPACES = 10
"""Namespaces with waiting deletions that a message names."""
_log = logging.getLogger("rackspan.reconcile")


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
    named = few([*map(str, keys)], _NAMED)
    return Failure(
        Reason.TOPOLOGY_IN_USE,
        f"it is being deleted, and waits: {len(keys)} {many} deletionPolicy Delete, and their "
        f"topics can be deleted only while it exists ({named}); delete them, or set their deletionPolicy to Retain",
        Remedy.SPEC,
    )


def how_to_confirm(topology: RackTopology, waiting: Collection[ObjectKey], held: Sequence[HeldDeletions]) -> str:
    """The message of the condition DeletionsHeld."""
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

    That are KafkaTopics, cordons, and Reassignments that are not let go yet, which takes a minute where Kafka is away.
    `dependents()` gives the KafkaTopics whose topics are to be deleted with them, `cordoned()` the brokers that the
    operator has cordoned, and `releases()` whether they can still be released.
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
        """What blocks the deletion of the RackTopology; None where nothing does or it is not being deleted."""
        self._key = key
        self._dependencies = dependencies
        self._dependents = dependents
        self._cordoned = cordoned
        self._releases = releases

    async def reconcile(self) -> None:
        """Add or remove the finalizer as needed. Never raises: a failed write is logged and tried again next time."""
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
                if written is not None and left:  # else it is tried again, and they may be released by then
                    event = cordons_left(topology, left, ", which could not be asked to release it")
                    self._dependencies.kube.record_event(event)
        if written is not None:
            self._dependencies.cache.put_topology_answer(written)

    def _has_reassignments(self) -> bool:
        """Whether throttles of its Reassignments may be left, which nobody could clear once it is gone."""
        mine = self._dependencies.cache.reassignments_of(self._key)
        return any(has_finalizer(one.meta) for one in mine)
