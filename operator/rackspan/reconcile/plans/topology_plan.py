"""The one plan of a topology's topics: computed over all topics that need a change, with one part per topic.

It is computed over all topics together when brokers, racks or the RackTopology change. When one topic changes, the
parts of its namespace are computed again, on top of the moves of all other parts: no namespace changes the parts of
another. Compliant topics have no part, and another compliant topic changes nothing. One planning runs at a time;
changes that arrive meanwhile are in the next one.

Topics without a KafkaTopic are in the plan if `spec.unmanagedTopics` says that they are repaired. They are identified
by names in Kafka alone (`api.plans.unmanaged_key`), so nothing that a tenant writes approves their parts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from rackspan.api.plans import is_unmanaged, part_name, topology_hash, unmanaged_key
from rackspan.core.placement import MissingRackError
from rackspan.core.planning import Elsewhere, PlanRequest, fill_topics, plan_topics, underfilled
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import table
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.runtime.threads import in_planner_thread
from rackspan.reconcile.specs.ownership import declared, refusal
from rackspan.reconcile.specs.placement import requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.planning import TopicPlan
    from rackspan.core.topology import RackTree
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import KafkaAdmin, TopicDescription
    from rackspan.reconcile.specs.placement import Assignment


_log = logging.getLogger("rackspan.reconcile")


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The inputs of a topic's part of a plan, without the load of the brokers."""

    topic: str
    tree: RackTree
    requirements: TopicRequirements
    replicas: Assignment


@dataclass(frozen=True, slots=True)
class WholePlan:
    """The plan of a topology: its parts that change something, and the inputs of each part, by object."""

    parts: Mapping[ObjectKey, TopicPlan]
    inputs: Mapping[ObjectKey, PlanInputs]
    hash: str
    """The hash of all parts together; empty if there are none."""
    namespaces: Mapping[str, str]
    """The hash of the parts of each namespace together; the namespace of topics without a KafkaTopic is empty."""
    lower_bound: int
    """The number of replicas that every plan has to copy at least."""

    def names(self, key: ObjectKey) -> frozenset[str]:
        """Return all hashes that name a part: its own, that of its namespace's parts and that of the whole plan."""
        return frozenset((self.parts[key].hash, self.namespaces[key.namespace], self.hash))

    def of(self, keys: Iterable[ObjectKey]) -> WholePlan:
        """Return the same plan with only these of its parts."""
        return replace(self, parts={key: self.parts[key] for key in keys})


def plan_hashes(parts: Mapping[ObjectKey, TopicPlan]) -> tuple[str, Mapping[str, str]]:
    """Return the hash of all parts, which all change something, and the hash of each namespace's parts."""
    hashes: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for key, part in parts.items():
        hashes[key.namespace][str(key)] = part.hash
    everything = {key: text for some in hashes.values() for key, text in some.items()}
    return topology_hash(everything) if parts else "", {name: topology_hash(some) for name, some in hashes.items()}


class TopologyPlan:
    """The current plan of one topology. `changed` is called with topics whose part changed since `of` returned it."""

    def __init__(self, changed: Callable[[Collection[ObjectKey]], None] = lambda _: None) -> None:
        self._changed = changed
        self._known: dict[ObjectKey, PlanInputs] = {}
        self._parts: dict[ObjectKey, TopicPlan] = {}
        self._needing: defaultdict[str, dict[ObjectKey, None]] = defaultdict(dict)
        """The topics whose parts are not empty, by namespace."""
        self._given: dict[ObjectKey, str] = {}
        """The hashes of the parts that `of` returned or reported last."""
        self._unplanned: set[ObjectKey] = set()
        """Topics whose inputs changed since the last planning."""
        self._outdated: set[str] = set()
        """Namespaces whose parts have to be computed again."""
        self._together = False
        """Whether all parts have to be computed again together."""
        self._whole: WholePlan | None = None
        self._fills = False
        """Whether the parts fill brokers."""
        self._bound: int | None = None
        """The lower bound of the whole plan if it fills brokers and was computed together, else None."""
        self._filling: bool | None = None
        """Whether plans had to fill brokers at the last call of `of`."""
        self._lock = asyncio.Lock()
        self._rested = float("-inf")

    async def of_unmanaged(self, replicas: Mapping[str, Assignment], state: ClusterState) -> None:
        """Plan these topics without a KafkaTopic, by name, and no other topics without one.

        Runs in the planner's thread; one call at a time.
        """
        known = {key: inputs for key, inputs in self._known.items() if is_unmanaged(key)}
        news = await in_planner_thread(_news, replicas, known, state)
        # A topic may have got a KafkaTopic while its inputs were computed.
        managed = {inputs.topic for key, inputs in self._known.items() if not is_unmanaged(key)}
        for key, inputs in news.items():
            self._note(key, None if key.name in managed else inputs)
        await self.of((), state)

    async def of(
        self,
        seen: Sequence[tuple[KafkaTopic, TopicDescription]],
        state: ClusterState,
        above_quota: Collection[ObjectKey] = (),
    ) -> Mapping[ObjectKey, TopicPlan]:
        """Return the parts of the plan for topics as `seen` in Kafka, by object; empty parts for compliant topics.

        Topics that are `above_quota` get no more replicas. Topics that cannot be planned are left out. Runs in the
        planner's thread; one call at a time.
        """
        wanted = await in_planner_thread(_all_inputs, seen, state, above_quota)
        for topic, _ in seen:
            self._note(topic.key, wanted.get(topic.key))
        async with self._lock:
            self._together |= self._filling not in (None, state.spec.fills_brokers)
            self._filling = state.spec.fills_brokers
            if self.outdated or any(self._known[key].tree == state.racks.tree for key in self._unplanned):
                await self._plan(state)
        given = {key: self._parts[key] for key in wanted if key in self._parts}
        self._given |= {key: part.hash for key, part in given.items()}
        outdated = {
            key: part.hash
            for key, known in self._given.items()
            if (part := self._parts.get(key)) is not None and part.hash != known
        }
        if outdated:
            self._given |= outdated  # each change is reported once
            self._changed([*outdated])
        return given

    @property
    def whole(self) -> WholePlan:
        """The plan as last computed, of the topics that need a change."""
        if self._whole is None:
            parts = {key: self._parts[key] for key in sorted(self._all_needing())}
            inputs = {key: self._known[key] for key in parts}
            least = sum(part.lower_bound for part in parts.values()) if self._bound is None else self._bound
            self._whole = WholePlan(parts, inputs, *plan_hashes(parts), least)
        return self._whole

    def make_anew(self, namespaces: Collection[str] | None = None) -> None:
        """Let the next `of` compute the parts of these namespaces again, or all parts together if None."""
        self._together |= namespaces is None
        self._outdated.update(namespaces or ())

    def forget(self, key: ObjectKey) -> None:
        """Drop a deleted KafkaTopic. If it had a part, the parts of its namespace are computed again without it."""
        self._note(key, None)
        self._given.pop(key, None)

    @property
    def outdated(self) -> bool:
        """Whether the next `of` computes parts again although no topic's inputs changed."""
        return self._together or bool(self._outdated)

    def _note(self, key: ObjectKey, inputs: PlanInputs | None) -> None:
        if inputs is not None and not is_unmanaged(key) and unmanaged_key(inputs.topic) in self._known:
            self._note(unmanaged_key(inputs.topic), None)  # the topic has a KafkaTopic now
        if inputs is not None and self._known.get(key) == inputs:
            return
        part, self._whole = self._parts.pop(key, None), None
        if part is not None and not part.empty:
            del self._needing[key.namespace][key]
            self._outdated.add(key.namespace)
            self._bound = None  # it was the bound of all parts together
        if inputs is None:
            self._known.pop(key, None)
            self._unplanned.discard(key)
            if key.namespace in self._outdated and not is_unmanaged(key):
                self._changed([*islice(self._needing[key.namespace], 1)])  # its pass computes them again
        else:
            self._known[key] = inputs
            self._unplanned.add(key)

    def _all_needing(self) -> Iterator[ObjectKey]:
        return chain.from_iterable(self._needing.values())

    async def _plan(self, state: ClusterState) -> None:
        """Plan new topics. If some need a change, or topics with a part have changed, plan their namespaces too."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._rested - loop.time()))
        began = loop.time()
        together, outdated = self._together, self._outdated
        self._together, self._outdated = False, set()
        # After the pause, in which topics may have been deleted.
        inputs = {key: one for key, one in self._known.items() if one.tree == state.racks.tree}
        new = self._unplanned & inputs.keys()
        self._unplanned -= new
        made, bound = None, None
        if _lacks_replicas(state):
            together |= not self._fills
            spaces = outdated | {key.namespace for key in new}
            filling = {key: one for key, one in inputs.items() if together or key.namespace in spaces}
            found = await in_planner_thread(_filled, filling, state, self._waiting(inputs, filling))
            made, bound = found if found is not None else (None, None)
        if made is None:
            made = await self._fewest_moves(inputs, new, outdated, state, together=together or self._fills)
            self._fills = False
        else:
            self._fills = True
        still = {key: part for key, part in made.items() if self._known.get(key) == inputs[key]}  # unchanged meanwhile
        self._parts |= still
        self._needing.clear()
        for key, part in self._parts.items():
            if not part.empty:
                self._needing[key.namespace][key] = None
        self._bound = bound if together and len(still) == len(made) else None
        self._whole = None
        self._rested = loop.time() + (loop.time() - began)  # at most half of the time is spent on plans

    async def _fewest_moves(
        self,
        inputs: Mapping[ObjectKey, PlanInputs],
        new: Collection[ObjectKey],
        outdated: Collection[str],
        state: ClusterState,
        *,
        together: bool,
    ) -> dict[ObjectKey, TopicPlan]:
        """Return the parts of `new` topics, and of other topics that need a change in namespaces that have changed."""
        made: dict[ObjectKey, TopicPlan] = {}
        if new:
            made = await in_planner_thread(_plan_isolated, {key: inputs[key] for key in new}, state, ())
        needing = {key: inputs[key] for key, part in made.items() if not part.empty}
        spaces = {*outdated, *(key.namespace for key in needing)}
        others = {
            key: inputs[key] for key in self._all_needing() if key in inputs and (together or key.namespace in spaces)
        }
        waiting = self._waiting(inputs, others)
        if others or (needing and waiting):
            made |= await in_planner_thread(_plan_isolated, others | needing, state, waiting)
        return made

    def _waiting(
        self, inputs: Mapping[ObjectKey, PlanInputs], apart_from: Collection[ObjectKey]
    ) -> Sequence[TopicPlan]:
        """Return the other parts that were planned for the current brokers."""
        return [self._parts[key] for key in self._all_needing() if key in inputs and key not in apart_from]


def _lacks_replicas(state: ClusterState) -> bool:
    """Return whether the plan has to fill brokers, by the counts of their replicas."""
    tree = state.racks.tree
    held = np.array([state.load.replicas[broker] for broker in tree.ids.tolist()], dtype=np.int64)
    return state.spec.fills_brokers and bool(underfilled(tree, held).any())


def _filled(
    inputs: Mapping[ObjectKey, PlanInputs], state: ClusterState, waiting: Sequence[TopicPlan]
) -> tuple[dict[ObjectKey, TopicPlan], int] | None:
    """Return the parts of the plan that fills brokers, and its lower bound; None if it cannot be computed."""
    try:
        made, bound = fill_topics(_request(inputs, state, waiting))
    except MissingRackError:
        return None
    except Exception:
        _log.exception("topology %s: no plan to fill brokers, for an unexpected error", state.topology)
        return None
    return {key: made[one.topic] for key, one in inputs.items() if one.topic in made}, bound


def request_of(
    seen: Sequence[tuple[KafkaTopic, TopicDescription]],
    unmanaged: Mapping[str, Assignment],
    state: ClusterState,
    above_quota: Collection[ObjectKey],
) -> tuple[PlanRequest, Mapping[str, ObjectKey]]:
    """Return the planner's request for these topics alone, and the keys of those that can be planned, by name."""
    wanted = {
        topic.key: inputs
        for topic, found in seen
        if (inputs := inputs_of(topic, found, state, above_quota)) is not None
    }
    for name, replicas in unmanaged.items():
        if (inputs := inputs_of_unmanaged(name, replicas, state)) is not None:
            wanted[unmanaged_key(name)] = inputs
    return _request(wanted, state, ()), {inputs.topic: key for key, inputs in wanted.items()}


def _all_inputs(
    seen: Sequence[tuple[KafkaTopic, TopicDescription]], state: ClusterState, above_quota: Collection[ObjectKey]
) -> Mapping[ObjectKey, PlanInputs]:
    """Return the inputs of topics that can be planned. An unexpected error leaves out only the topic that causes it."""
    found = {}
    for topic, described in seen:
        try:
            inputs = inputs_of(topic, described, state, above_quota)
        except Exception:
            _log.exception("KafkaTopic %s: no plan, for an unexpected error", topic.key)
            continue
        if inputs is not None:
            found[topic.key] = inputs
    return found


def inputs_of(
    topic: KafkaTopic, seen: TopicDescription, state: ClusterState, above_quota: Collection[ObjectKey]
) -> PlanInputs | None:
    """Return the inputs of the topic's part, or None if it cannot be planned: a level or a rack is missing.

    A topic that is `above_quota` keeps its replication factor. If its spec assigns replicas, it is not planned.
    """
    try:
        required = requirements(topic.spec, state).of_existing(len(seen.replicas))
    except FailureError:
        return None
    size = topic.spec.replication_factor
    if topic.key in above_quota and any(len(row) < size for row in seen.replicas):
        if required.assignment:
            return None
        required = replace(required, replication_factor=None)
    return _inputs(topic.topic_name, required, seen.replicas, state)


def inputs_of_unmanaged(name: str, replicas: Assignment, state: ClusterState) -> PlanInputs | None:
    """Return the inputs of a topic without a KafkaTopic. It keeps its replication factor, and is spread fairly."""
    return _inputs(name, TopicRequirements(), replicas, state)


def _inputs(name: str, required: TopicRequirements, replicas: Assignment, state: ClusterState) -> PlanInputs | None:
    unknown = {row.id for row in state.racks.missing}
    if not state.racks.ignore_missing and any(unknown.intersection(row) for row in replicas):
        return None
    return PlanInputs(name, state.racks.tree, required, replicas)


def _news(
    replicas: Mapping[str, Assignment], known: Mapping[ObjectKey, PlanInputs], state: ClusterState
) -> Mapping[ObjectKey, PlanInputs | None]:
    """Return the inputs of topics without a KafkaTopic that differ from `known`; None if deleted or not plannable."""
    now = {unmanaged_key(name): rows for name, rows in replicas.items()}
    made = {key: inputs_of_unmanaged(key.name, rows, state) for key, rows in now.items()}
    return {key: made.get(key) for key in [*known, *now] if made.get(key) != known.get(key)}


def _plan_isolated(
    wanted: Mapping[ObjectKey, PlanInputs], state: ClusterState, pending: Sequence[TopicPlan]
) -> dict[ObjectKey, TopicPlan]:
    """Plan topics together. An unexpected error leaves out only the topic that causes it (bisection)."""
    keys = list(wanted)
    try:
        together = plan_topics(_request(wanted, state, pending))
        return {key: together[inputs.topic] for key, inputs in wanted.items() if inputs.topic in together}
    except MissingRackError:
        return {}
    except Exception:
        if len(keys) == 1:
            _log.exception("topic %s: no plan, for an unexpected error", part_name(keys[0]))
            return {}
    first, second = ({key: wanted[key] for key in half} for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :]))
    made = _plan_isolated(first, state, pending)
    return made | _plan_isolated(second, state, [*pending, *made.values()])


def _request(wanted: Mapping[ObjectKey, PlanInputs], state: ClusterState, pending: Iterable[TopicPlan]) -> PlanRequest:
    lines = [
        (at, number, row, row, None, None)
        for at, inputs in enumerate(wanted.values())
        for number, row in enumerate(inputs.replicas)
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
    return PlanRequest(
        state.racks.tree,
        table([inputs.topic for inputs in wanted.values()], lines),
        requirements={inputs.topic: inputs.requirements for inputs in wanted.values()},
        elsewhere=Elsewhere(+replicas, +leaders),
    )


# --- topics without a KafkaTopic --------------------------------------------------------------------------------------


_LOOK_SECONDS = 60.0
"""The time between two checks: each is a Metadata request for all topics."""


def unmanaged_topics(
    topology: RackTopology, topics: Iterable[KafkaTopic], others: Collection[str], replicas: Mapping[str, Assignment]
) -> Mapping[str, Assignment]:
    """Return the topics that are repaired without a KafkaTopic, by name.

    `topics` are the KafkaTopics that the topology admits; `others` are names that other topologies' KafkaTopics have.
    """
    managed = declared(topology, topics).keys() | set(others)
    return {name: rows for name, rows in replicas.items() if name not in managed and topology.spec.repairs(name)}


class UnmanagedParts:
    """Keeps the plan's topics without a KafkaTopic up to date. If they are only reported, it sends no requests."""

    def __init__(self, key: ObjectKey, cache: Cache, plans: TopologyPlan) -> None:
        self._key = key
        self._cache = cache
        self._plans = plans
        self._due = float("-inf")
        self._epoch: int | None = None
        self._planned = False

    @property
    def is_due(self) -> bool:
        """Whether the topics in Kafka have changed, or were not checked yet."""
        return self._due == float("-inf")

    def look_again(self) -> None:
        """Let the next `look` check at once, because the topics in Kafka have changed."""
        self._due = float("-inf")

    async def look(self, state: ClusterState, admin: KafkaAdmin, epoch: int) -> None:
        """Check the topics if it is time. Raises FailureError if Kafka does not respond."""
        topology, now = self._cache.topologies.get(self._key), asyncio.get_running_loop().time()
        if topology is None or (self._epoch == epoch and now < self._due):
            return
        found: Mapping[str, Assignment] = {}
        if topology.spec.repairs_unmanaged:
            replicas = await admin.assignments()
            others = self._cache.claimed_by_others(self._key)
            found = await in_planner_thread(unmanaged_topics, topology, self._admitted(topology), others, replicas)
        if found or self._planned:
            await self._plans.of_unmanaged(found, state.for_plans)
        self._planned, self._epoch, self._due = bool(found), epoch, now + _LOOK_SECONDS

    def is_unmanaged_still(self, topology: RackTopology, topic: str) -> bool:
        """Return whether the topic still has no KafkaTopic."""
        rivals = [one for one in self._cache.topics_named(self._key, topic) if self._admits(topology, one)]
        return topic not in declared(topology, rivals)

    def _admitted(self, topology: RackTopology) -> list[KafkaTopic]:
        topics = (self._cache.topics[key] for key in self._cache.topics_of(self._key))
        return [topic for topic in topics if self._admits(topology, topic)]

    def _admits(self, topology: RackTopology, topic: KafkaTopic) -> bool:
        return refusal(topic, topology, self._cache.namespaces) is None
