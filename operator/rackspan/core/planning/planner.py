"""The planner: the fewest moves with which every topic meets its requirements, for any tree.

GOALS
In this order:

1. every partition has the required number of replicas, and a fair split over the eligible brokers;
2. as few replicas as possible are copied; a partition that meets its requirements is not changed;
3. brokers hold equally many replicas;
4. they lead equally many partitions;
5. the fullest broker holds few bytes.

ALGORITHM
Repair, drain, a new replication factor and an unchanged topic are one function with different inputs: judge all
partitions at once, repair those that fail (`rackspan.core.placement.engine.repair.partition_repair`), create those that
are missing. The lower bound is computed independently of the result, from the most replicas that each partition could
keep (`rackspan.core.compliance.fewest_moves`).

Rebalancing continues from there: partitions give replicas to brokers that have fewer, as long as that makes the loads
more even and every split stays fair. Its bound is for all plans that end equally even
(`rackspan.core.placement.engine.balance.rebalance`). Filling is rebalancing for brokers that are new or were emptied:
brokers that hold less than half of an even share, and would hold at least twice as much afterwards.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from rackspan.core.compliance import allowed_skews, judge
from rackspan.core.compliance.fewest_moves import fewest_moves
from rackspan.core.placement.engine.repair.partition_repair import repair_partitions
from rackspan.core.placement.engine.tasks import Task
from rackspan.core.placement.feasibility import refuse_missing_racks, reopening
from rackspan.core.planning.changes import Changes
from rackspan.core.planning.draft import Draft
from rackspan.core.planning.evening import even_out_all
from rackspan.core.planning.measuring import states
from rackspan.core.planning.per_topic import assign, create
from rackspan.core.planning.request import PlanRequest, Problem
from rackspan.core.planning.topic_plan import Fingerprints, Plan, TopicPlan, below_min_insync, refuse_false_bound
from rackspan.core.snapshot import NONE
from rackspan.core.text import few, plural
from rackspan.core.topology import BoolArray, IntArray, RackTree

_SEED = 0  # of choices between topics


def plan(request: PlanRequest) -> Plan:
    """Return the plan with the fewest moves.

    Impossible requirements become problems of the plan, and the partitions concerned stay unchanged. Raises
    MissingRackError if some brokers have a rack id and some do not.
    """
    draft = _repaired(request)
    return _concluded(draft, int(draft.bound.sum()))


def rebalance(request: PlanRequest) -> Plan:
    """Return the plan of `plan` with replicas and leaders as even as fair splits allow. Raises MissingRackError."""
    draft = _repaired(request)
    return _concluded(draft, even_out_all(draft))


def fill(request: PlanRequest) -> Plan:
    """Return the plan of `rebalance` if that fills a broker with too few replicas, else that of `plan`."""
    draft, bound = _filled(request)
    return _concluded(draft, bound)


def underfilled(tree: RackTree, replicas: IntArray) -> BoolArray:
    """Return which brokers are new or were emptied, shape (brokers,): eligible and open, with less than half a share.

    `replicas` (brokers,) counts the replicas on each broker. An even share includes the replicas of drained brokers.
    """
    share = int(replicas.sum()) // max(int(tree.eligible.sum()), 1)
    found: BoolArray = tree.eligible & tree.open & (2 * replicas < share)
    return found


def plan_topics(request: PlanRequest) -> Mapping[str, TopicPlan]:
    """Return the plan with the fewest moves in parts: one for each topic that may be changed, with its own hash.

    A problem that several topics share is in the part of each. Raises MissingRackError like `plan`.
    """
    return _parts(_repaired(request))


def fill_topics(request: PlanRequest) -> tuple[Mapping[str, TopicPlan], int]:
    """Return the plan of `fill` in parts, and its lower bound. The parts have only the lower bound of their repair."""
    draft, bound = _filled(request)
    parts = _parts(draft)
    refuse_false_bound(sum(part.moves for part in parts.values()), bound)
    return parts, bound


def _parts(draft: Draft) -> Mapping[str, TopicPlan]:
    changes = _changes(draft)
    fingerprints = Fingerprints(draft.tree, draft.request.requirements)
    problems: dict[str, list[Problem]] = defaultdict(list)
    for problem in draft.problems:
        for topic in problem.topics:
            problems[topic].append(problem)
    plans = {}
    for at, topic in enumerate(draft.table.names):
        rows = draft.rows_of[topic]
        if draft.chosen[rows].any():
            own = changes.of_topic(at)
            plans[topic] = TopicPlan(
                hash=fingerprints.of(draft.table.rows(rows), own),
                changes=own,
                lower_bound=int(draft.bound[rows].sum()),
                problems=tuple(problems[topic]),
            )
    return plans


def _repaired(request: PlanRequest) -> Draft:
    """Return a draft in which all topics meet their requirements, as far as possible."""
    refuse_missing_racks(request.tree)
    draft = Draft(request)
    assign(draft)
    tasks = list(_tasks(draft))
    placed = repair_partitions(draft.tree, tasks, draft.before, draft.table.size_bytes, draft.loads, _SEED)
    for task in tasks:
        found = placed[task.rows, :1].ravel() >= 0
        rows = task.rows[found]
        draft.problems += _unplaceable(draft, task, task.rows[~found])
        draft.bound[rows] = fewest_moves(task.tree, task.size, draft.before[rows], task.skews)
    done = np.flatnonzero((placed >= 0).any(axis=1))
    draft.decide(done, placed[done])
    create(draft)
    return draft


def _filled(request: PlanRequest) -> tuple[Draft, int]:
    """Return the repaired draft, evened out if that fills a broker with too few replicas, and its lower bound."""
    draft = _repaired(request)
    bound, before = int(draft.bound.sum()), draft.loads_before.replicas
    short = underfilled(draft.tree, before)
    if short.any():
        replicas, loads, created = draft.replicas, draft.loads.copy(), list(draft.created)
        fewest = even_out_all(draft)
        if (short & (draft.loads.replicas >= np.maximum(2 * before, 1))).any():
            bound = fewest
        else:
            draft.replicas, draft.loads, draft.created = replicas, loads, created
    return draft, bound


def _tasks(draft: Draft) -> Iterator[Task]:
    """Yield the partitions of each group that do not meet their requirements."""
    for group in draft.groups:
        rows, size, tree = group.rows, group.spec.replication_factor, group.tree
        compliance = judge(tree, draft.table.replicas[rows], group.spec.spread)
        draft.compliance.add(compliance)
        wrong = compliance.broken | ((draft.table.replicas[rows] != NONE).sum(axis=1) != size)
        if group.spec.leaders:
            preferred = np.append(group.preferred, [False])[draft.before[rows]]
            wrong |= preferred.any(axis=1) & ~preferred[:, 0]
        if wrong.any():
            yield Task(tree, size, allowed_skews(tree, group.spec.spread), group.preferred, rows[wrong])


def _unplaceable(draft: Draft, task: Task, rows: IntArray) -> list[Problem]:
    if not len(rows):
        return []
    table = draft.table
    state, remedy = reopening(task.tree, task.size)
    return [
        Problem(
            (table.names[topic],),
            f"{_named(table.number[rows[table.topic[rows] == topic]])} cannot get {plural(task.size, 'replica')} by a "
            f"fair split of the brokers that are {state}",
            remedy,
        )
        for topic in np.unique(table.topic[rows]).tolist()
    ]


def _named(numbers: IntArray) -> str:
    return f"partition{'s' * (len(numbers) > 1)} {few([*map(str, numbers.tolist())])}"


def _concluded(draft: Draft, bound: int) -> Plan:
    changes = _changes(draft)
    before, after = states(draft)
    return Plan(
        hash=Fingerprints(draft.tree, draft.request.requirements).of(draft.table.rows(draft.chosen), changes),
        changes=changes,
        lower_bound=bound,
        problems=tuple(draft.problems),
        before=before,
        after=after,
        below_min_insync=below_min_insync(changes, draft.request.min_insync),
    )


def _changes(draft: Draft) -> Changes:
    """Return all changes, by topic and partition."""
    table, rows = draft.table, draft.changed
    changed = Changes(
        table.names,
        table.topic[rows],
        table.number[rows],
        draft.replicas[rows],
        table.replicas[rows],
        table.size_bytes[rows],
    )
    return changed.with_created(draft.created)
