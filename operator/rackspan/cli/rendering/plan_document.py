"""A plan as a document for programs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rackspan.core.planning import Plan, PlanState

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
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


def topology_document(key: "ObjectKey", made: "ObservedPlan", others: Mapping[str, str]) -> dict[str, Any]:
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
