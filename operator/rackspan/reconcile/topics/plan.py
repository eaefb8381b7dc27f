"""The plans of one topology's topics: made together, and kept while their inputs are the same.

New plans count the pending ones of other topics as carried out, so that not all choose the emptiest broker. A plan
under review does not change because another topic did.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rackspan.core.placement import MissingRackError
from rackspan.core.planning import Elsewhere, Request, plan_topics
from rackspan.core.snapshot import table
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.runtime.threads import in_planner_thread
from rackspan.reconcile.topics.placement import requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.core.planning import TopicPlan
    from rackspan.core.requirements import TopicRequirements
    from rackspan.core.topology import RackTree
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import TopicDescription

_log = logging.getLogger("rackspan.reconcile")
Replicas = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _PlanInputs:
    """The inputs of a plan."""

    tree: RackTree
    requirements: TopicRequirements
    replicas: Replicas


class Plans:
    """The present plans of one topology's topics."""

    def __init__(self) -> None:
        self._known: dict[ObjectKey, tuple[_PlanInputs, TopicPlan]] = {}
        self._lock = asyncio.Lock()

    async def of(
        self, seen: Sequence[tuple[KafkaTopic, TopicDescription]], state: ClusterState
    ) -> Mapping[ObjectKey, TopicPlan]:
        """Plans for topics as `seen` in Kafka, by object; empty ones for compliant topics.

        Topics that cannot be planned are left out. Runs in the planner's thread; one call at a time.
        """
        async with self._lock:
            wanted, outdated = await in_planner_thread(partial(self._changed_inputs, seen, state))
            if outdated:
                for topic in outdated:
                    self.forget(topic.key)
                made = await in_planner_thread(partial(_plan_isolated, outdated, wanted, state, self._pending(state)))
                for topic in outdated:
                    if topic.topic_name in made:
                        self._known[topic.key] = wanted[topic.key], made[topic.topic_name]
            return {key: self._known[key][1] for key in wanted if key in self._known}

    def forget(self, key: ObjectKey) -> None:
        """Drop the plan of a KafkaTopic that is gone or whose inputs changed."""
        self._known.pop(key, None)

    def _changed_inputs(
        self, seen: Sequence[tuple[KafkaTopic, TopicDescription]], state: ClusterState
    ) -> tuple[Mapping[ObjectKey, _PlanInputs], Sequence[KafkaTopic]]:
        """The inputs of each topic's plan now, and the topics whose inputs changed."""
        wanted = {
            topic.key: inputs for topic, found in seen if (inputs := _inputs_isolated(topic, found, state)) is not None
        }
        outdated = [
            topic for topic, _ in seen if topic.key in wanted and not self._is_current(topic.key, wanted[topic.key])
        ]
        return wanted, outdated

    def _is_current(self, key: ObjectKey, inputs: _PlanInputs) -> bool:
        known = self._known.get(key)
        return known is not None and known[0] == inputs

    def _pending(self, state: ClusterState) -> list[TopicPlan]:
        """Plans that are not carried out yet; without those for another rack tree, which are made anew."""
        return [made for inputs, made in self._known.values() if not made.empty and inputs.tree == state.racks.tree]


def request_of(
    seen: Sequence[tuple[KafkaTopic, TopicDescription]], state: ClusterState
) -> tuple[Request, Sequence[KafkaTopic]]:
    """The planner's request for these topics without any other plans, and the topics that can be planned."""
    wanted = {topic.key: inputs for topic, found in seen if (inputs := _inputs_of(topic, found, state)) is not None}
    topics = [topic for topic, _ in seen if topic.key in wanted]
    return _request(topics, wanted, state, ()), topics


def _inputs_isolated(topic: KafkaTopic, seen: TopicDescription, state: ClusterState) -> _PlanInputs | None:
    try:
        return _inputs_of(topic, seen, state)
    except Exception:
        _log.exception("KafkaTopic %s: no plan, for an unexpected error", topic.key)
        return None


def _inputs_of(topic: KafkaTopic, seen: TopicDescription, state: ClusterState) -> _PlanInputs | None:
    """None where the topic cannot be planned: a level or a rack is missing."""
    unknown = {row.id for row in state.racks.missing}
    if not state.racks.ignore_missing and any(unknown.intersection(row) for row in seen.replicas):
        return None
    try:
        required = requirements(topic.spec, state)
    except FailureError:
        return None
    return _PlanInputs(state.racks.tree, required.of_existing(len(seen.replicas)), seen.replicas)


def _plan_isolated(
    topics: Sequence[KafkaTopic],
    wanted: Mapping[ObjectKey, _PlanInputs],
    state: ClusterState,
    pending: Sequence[TopicPlan],
) -> Mapping[str, TopicPlan]:
    """Plan topics together; an unexpected error leaves only the topic without a plan that causes it (bisection)."""
    try:
        return _plan_together(topics, wanted, state, pending)
    except Exception:
        if len(topics) == 1:
            _log.exception("KafkaTopic %s: no plan, for an unexpected error", topics[0].key)
            return {}
    middle = len(topics) // 2
    first = _plan_isolated(topics[:middle], wanted, state, pending)
    second = _plan_isolated(topics[middle:], wanted, state, [*pending, *first.values()])
    return {**first, **second}


def _plan_together(
    topics: Sequence[KafkaTopic],
    wanted: Mapping[ObjectKey, _PlanInputs],
    state: ClusterState,
    pending: Iterable[TopicPlan],
) -> Mapping[str, TopicPlan]:
    try:
        return plan_topics(_request(topics, wanted, state, pending))
    except MissingRackError:
        return {}


def _request(
    topics: Sequence[KafkaTopic],
    wanted: Mapping[ObjectKey, _PlanInputs],
    state: ClusterState,
    pending: Iterable[TopicPlan],
) -> Request:
    names = [topic.topic_name for topic in topics]
    lines = [
        (at, number, row, row, None, None)
        for at, topic in enumerate(topics)
        for number, row in enumerate(wanted[topic.key].replicas)
    ]
    replicas, leaders = Counter(state.load.replicas), Counter(state.load.leaders)
    for waiting in pending:
        for change in waiting.changes:
            replicas.update(change.replicas)
            replicas.subtract(change.before)
            leaders.update(change.replicas[:1])
            leaders.subtract(change.before[:1])
    for _, _, row, *_ in lines:
        replicas.subtract(row)
        leaders.subtract(row[:1])
    return Request(
        state.racks.tree,
        table(names, lines),
        requirements={topic.topic_name: wanted[topic.key].requirements for topic in topics},
        elsewhere=Elsewhere(+replicas, +leaders),
    )
