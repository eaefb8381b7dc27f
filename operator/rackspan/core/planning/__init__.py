"""Planning: the fewest changes with which the topics of a cluster meet their requirements, with a certificate."""

from rackspan.core.planning.changes import Change, Changes
from rackspan.core.planning.planner import fill, fill_topics, plan, plan_topics, rebalance, underfilled
from rackspan.core.planning.request import Elsewhere, PlanRequest, Problem
from rackspan.core.planning.topic_plan import (
    BelowMinInsync,
    Extent,
    FalseBoundError,
    Plan,
    PlanState,
    TopicPlan,
    below_min_insync,
)

__all__ = [
    "BelowMinInsync",
    "Change",
    "Changes",
    "Elsewhere",
    "Extent",
    "FalseBoundError",
    "Plan",
    "PlanRequest",
    "PlanState",
    "Problem",
    "TopicPlan",
    "below_min_insync",
    "fill",
    "fill_topics",
    "plan",
    "plan_topics",
    "rebalance",
    "underfilled",
]
