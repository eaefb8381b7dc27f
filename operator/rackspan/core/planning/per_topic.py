"""Planning for single topics: explicit assignments, and partitions to be created."""

from dataclasses import dataclass, replace

import numpy as np

from rackspan.core.compliance import assigned
from rackspan.core.placement.feasibility import checked_tree, refuse_impossible_spread
from rackspan.core.placement.multilevel import created
from rackspan.core.placer import InfeasibleError, PlacementSpec
from rackspan.core.planning.changes import CreatedPartitions
from rackspan.core.planning.draft import Draft
from rackspan.core.planning.request import Problem
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import NONE
from rackspan.core.text import few, plural
from rackspan.core.topology import RackTree


def assign(draft: Draft) -> None:
    """Apply explicit assignments unchanged. All moves that they need count in the lower bound."""
    for topic in sorted(set(draft.table.names).intersection(draft.request.requirements)):
        wanted, rows = draft.requirements(topic).assignment, draft.rows_of[topic]
        if not wanted or not draft.chosen[rows].all():
            continue
        problem = _misfit(draft.tree, topic, wanted, len(rows))
        if problem is not None:
            draft.problems.append(problem)
            continue
        ids = assigned(wanted, np.arange(len(wanted)))
        now = draft.table.replicas[rows].tolist()
        problem = _onto_cordoned(draft.tree, topic, wanted, now)
        if problem is not None:
            draft.problems.append(problem)
            continue
        placed, sizes = draft.tree.positions(ids), draft.table.size_bytes[rows]
        draft.loads.remove(draft.before[rows], sizes)
        draft.loads.add(placed, np.append(sizes, np.full(len(wanted) - len(rows), NONE)))
        draft.decide(rows, placed[: len(rows)])
        draft.bound[rows] = [len(set(new).difference(old)) for new, old in zip(wanted, now, strict=False)]
        if len(wanted) > len(rows):
            draft.created.append(CreatedPartitions(topic, len(rows), ids[len(rows) :]))


def _misfit(tree: RackTree, topic: str, wanted: tuple[tuple[int, ...], ...], partitions: int) -> Problem | None:
    """Return why an assignment cannot be applied, or None."""
    if len(wanted) < partitions:
        has = plural(len(wanted), "partition")
        reason = f"its assignment has {has}, the topic has {partitions}, and Kafka removes none"
        return Problem((topic,), reason, f"assign {partitions - len(wanted)} more")
    known = {broker.id for broker in tree.brokers}
    for number, replicas in enumerate(wanted):
        where = f"partition {number} is assigned to {list(replicas)}"
        if not known.issuperset(replicas):
            return Problem((topic,), where, _absent(sorted(set().union(*wanted) - known)))
        if not replicas or len(set(replicas)) < len(replicas):
            return Problem((topic,), where, "name at least one broker, and each only once")
    return None


def _absent(brokers: list[int]) -> str:
    if len(brokers) == 1:
        return f"broker {brokers[0]} is not there, name another one"
    return f"brokers {few([*map(str, brokers)])} are not there, name other ones"


def _onto_cordoned(
    tree: RackTree, topic: str, wanted: tuple[tuple[int, ...], ...], now: list[list[int]]
) -> Problem | None:
    """Return a problem if an assignment has new replicas on cordoned brokers, else None."""
    cordoned = set(tree.cordoned)
    for number, replicas in enumerate(wanted):
        held = now[number] if number < len(now) else ()
        added = cordoned.intersection(replicas).difference(held)
        if added:
            where = f"partition {number} is assigned to {list(replicas)}, and broker {min(added)} is cordoned"
            return Problem((topic,), where, "name another one, or remove cordoned.log.dirs there")
    return None


def create(draft: Draft) -> None:
    """Place the partitions to be created on the brokers that are least loaded after all other decisions."""
    known = {(topic, one.reason) for one in draft.problems for topic in one.topics}
    for topic in sorted(draft.request.requirements):
        required = draft.requirements(topic)
        rows = draft.rows_of.get(topic, np.empty(0, dtype=np.int64))
        if required.partitions is None or required.assignment or not len(rows) or not draft.chosen[rows].all():
            continue
        try:
            draft.created += _placed(draft, topic, required, required.partitions)
        except InfeasibleError as error:
            if (topic, error.reason) not in known:
                draft.problems.append(Problem((topic,), error.reason, error.smallest_change))


@dataclass(frozen=True, slots=True, eq=False)
class Placed(CreatedPartitions):
    """Partitions to be created that the planner has placed, and that rebalancing may place elsewhere.

    `tree` has their eligible brokers; `spec` has their replication factor, spread and preferred leaders.
    """

    tree: RackTree
    spec: PlacementSpec


def _placed(draft: Draft, topic: str, required: TopicRequirements, partitions: int) -> list[Placed]:
    rows = [[broker for broker in row if broker != NONE] for row in draft.replicas[draft.rows_of[topic]].tolist()]
    size = required.replication_factor or max(map(len, rows))
    spec = required.placement_spec(topic, partitions, size, tuple(map(tuple, rows)))
    tree = checked_tree(spec, draft.tree)
    refuse_impossible_spread(tree, spec)
    if partitions == len(rows):
        return []
    added = created(tree, spec, draft.loads)
    draft.loads.add(draft.tree.positions(added), np.full(len(added), NONE))
    alike = replace(spec, partitions=0, current=(), include=(), exclude=(), seed=0)
    return [Placed(topic, len(rows), added, tree, alike)]
