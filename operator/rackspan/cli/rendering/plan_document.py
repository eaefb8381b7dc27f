"""A plan for programs: as a document, and as Kafka's own tools take it."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rackspan.api.meta import ObjectKey
from rackspan.cli.rendering.printed_documents import json_lines
from rackspan.cli.rendering.stderr_lines import note
from rackspan.core.planning import Plan, PlanState
from rackspan.core.snapshot import NONE, Partitions
from rackspan.reconcile.dry_run import ObservedPlan


def document(plan: Plan) -> dict[str, Any]:
    """
    Give the JSON of a plan with the partitions that change.

    `problems` and `belowMinInsync` are only there where there are some.
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
    """Give what the JSON of a topology's plan begins with: its topics' plans, and where the operator's is another."""
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
        "levels": [
            {
                "level": extent.name,
                "replicas": {"min": extent.replicas[0], "max": extent.replicas[1]},
                "leaders": {"min": extent.leaders[0], "max": extent.leaders[1]},
            }
            for extent in state.levels
        ],
    }


def print_reassignment(plan: Plan, partitions: Partitions) -> None:
    """
    Print what `kafka-reassign-partitions.sh --execute` takes.

    That tool creates no partitions: those are named on standard error, with the command that does.
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
    changed = {(change.topic, change.partition): change.replicas for change in plan.changes}
    for topic in sorted({change.topic for change in plan.changes if not change.before}):
        rows = np.flatnonzero(partitions.topic == partitions.names.index(topic))
        # The tool wants a list for every partition, all of one length, and passes over those that are there already.
        now = {
            number: tuple(broker for broker in row if broker != NONE)
            for number, row in enumerate(partitions.replicas[rows].tolist())
        }
        planned = now | {number: replicas for (name, number), replicas in changed.items() if name == topic}
        assignment = ",".join(":".join(map(str, planned[number])) for number in range(len(planned)))
        yield (
            f"kafka-topics.sh --bootstrap-server HOST:PORT --alter --topic {topic} --partitions {len(planned)} "
            f"--replica-assignment {assignment}"
        )
