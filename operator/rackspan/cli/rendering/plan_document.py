"""A plan for programs: as a document, and in the format of Kafka's own tools."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from rackspan.api.meta import ObjectKey
from rackspan.cli.rendering.printed_documents import json_lines
from rackspan.cli.rendering.stderr_lines import note
from rackspan.core.planning import Extent, Plan, PlanState
from rackspan.core.snapshot import NONE, Partitions
from rackspan.reconcile.dry_run import ObservedPlan


def document(plan: Plan) -> dict[str, Any]:
    """Return the JSON of a plan with the partitions that change.

    The document has `problems` and `belowMinInsync` only if they are not empty.
    """
    certificate = {
        "hash": plan.hash,
        "feasible": plan.feasible,
        "moves": plan.moves,
        "lowerBound": plan.lower_bound,
        "gap": plan.gap,
        "reorders": plan.reorders,
        "removals": plan.removals,
        "bytes": plan.bytes,
        "removedBytes": plan.removed_bytes,
        "before": _state(plan.before),
        "after": _state(plan.after),
    }
    problems = [
        {"topics": problem.topics, "reason": problem.reason, "smallestChange": problem.smallest_change}
        for problem in plan.problems
    ]
    changes = [
        {"topic": one.topic, "partition": one.partition, "replicas": one.replicas, "from": one.before}
        for one in plan.changes
    ]
    below = [
        {
            "topic": one.topic,
            "partitions": one.partitions,
            "replicas": one.replicas,
            "minInsyncReplicas": one.min_insync,
        }
        for one in plan.below_min_insync
    ]
    optional = {"problems": problems, "belowMinInsync": below}
    return {**certificate, **{name: rows for name, rows in optional.items() if rows}, "partitions": changes}


def topology_document(key: ObjectKey, made: ObservedPlan, others: Mapping[str, str]) -> dict[str, Any]:
    """Return the first part of the JSON of a topology's plan: plans of topics, and why the operator's plans differ."""
    topics = []
    for topic, part in sorted(made.parts.items()):
        managed = made.topics.get(topic)
        operator_plan = managed.status.plan if managed is not None else None
        if not part.empty or operator_plan is not None:
            topics.append(
                {
                    "topic": str(topic) if managed is not None else None,
                    "topicName": managed.topic_name if managed is not None else topic.name,
                    "hash": made.hash_of(topic),
                    "moves": part.moves,
                    "removals": part.removals,
                    "operatorHash": operator_plan.hash if operator_plan else None,
                    "difference": others.get(str(topic)),
                }
            )
    namespaces = [{"namespace": name or None, "hash": text} for name, text in sorted(made.namespaces.items())]
    return {"topology": str(key), "namespaces": namespaces, "topics": topics}


def _state(state: PlanState) -> dict[str, Any]:
    return {
        "partitions": state.partitions,
        "nonCompliant": state.non_compliant,
        "pinned": state.pinned,
        "pinnedMoves": state.pinned_moves,
        "unfair": dict(state.unfair),
        "levels": levels_document(state.levels),
    }


def levels_document(levels: Iterable[Extent]) -> list[dict[str, Any]]:
    """Return the JSON of what the domains of each level hold."""
    return [
        {
            "level": one.name,
            "replicas": {"min": one.replicas[0], "max": one.replicas[1]},
            "leaders": {"min": one.leaders[0], "max": one.leaders[1]},
        }
        for one in levels
    ]


def print_reassignment(plan: Plan, partitions: Partitions) -> None:
    """Print the input of `kafka-reassign-partitions.sh --execute`.

    That tool cannot create partitions. The commands that create them are printed on standard error.
    """
    moves = (
        {"topic": change.topic, "partition": change.partition, "replicas": change.replicas}
        for change in plan.changes
        if change.before
    )
    sys.stdout.writelines(json_lines({"version": 1, "partitions": moves}))
    for command in _creations(plan, partitions):
        note(f"partitions are created by another tool: {command}")
    if plan.empty:
        note("there is nothing to do: the list is empty")


def _creations(plan: Plan, partitions: Partitions) -> Iterator[str]:
    changed: defaultdict[str, dict[int, tuple[int, ...]]] = defaultdict(dict)
    for change in plan.changes:
        changed[change.topic][change.partition] = change.replicas
    order = np.argsort(partitions.topic, kind="stable")
    starts = np.searchsorted(partitions.topic[order], np.arange(len(partitions.names) + 1))
    index = {name: at for at, name in enumerate(partitions.names)}
    for topic in sorted({change.topic for change in plan.changes if not change.before}):
        rows = order[starts[index[topic]] : starts[index[topic] + 1]]
        # The tool requires a list for every partition, all of the same length, and skips existing partitions.
        now = {
            number: tuple(broker for broker in row if broker != NONE)
            for number, row in enumerate(partitions.replicas[rows].tolist())
        }
        planned = now | changed[topic]
        assignment = ",".join(":".join(map(str, planned[number])) for number in range(len(planned)))
        yield (
            f"kafka-topics.sh --bootstrap-server HOST:PORT --alter --topic {topic} --partitions {len(planned)} "
            f"--replica-assignment {assignment}"
        )
