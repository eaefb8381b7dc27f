"""Metrics of a topology's Reassignments; the series go with the objects."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rackspan import metrics
from rackspan.api.reassignment import ReassignmentState
from rackspan.reconcile.plans.turns import has_begun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.api.reassignment import Reassignment


def measure(topology: str, objects: Sequence[Reassignment]) -> None:
    """Set the gauges: counts by state, and how far the plan is that is carried out, or was last."""
    begun = [one for one in objects if has_begun(one)]
    under_way = [one for one in begun if not one.ended]
    last = max(under_way or begun, key=lambda one: str(one.status.started_at or ""), default=None)
    if last is None:
        metrics.forget_reassignments(topology)  # of one that is gone
    states = Counter(one.status.state or ReassignmentState.QUEUED for one in objects)
    for state in ReassignmentState:
        metrics.REASSIGNMENTS.labels(topology, state.value).set(states[state])
    metrics.REASSIGNMENT_THROTTLES.labels(topology).set(sum(one.status.throttles or 0 for one in objects))
    if last is None:
        return
    status = last.status
    metrics.REASSIGNMENT_MOVES.labels(topology).set(status.moves or 0)
    metrics.REASSIGNMENT_MOVED.labels(topology).set(status.moved or 0)
    metrics.REASSIGNMENT_BYTES.labels(topology).set(status.bytes or 0)
    metrics.REASSIGNMENT_MOVED_BYTES.labels(topology).set(status.moved_bytes or 0)
    metrics.REASSIGNMENT_RATE.labels(topology).set(0 if last.ended else status.rate or 0)
    metrics.REASSIGNMENT_WAITING.remove_by_labels({"topology": topology})
    for one in status.waiting.reasons if status.waiting else ():
        metrics.REASSIGNMENT_WAITING.labels(topology, one.reason).set(one.partitions)
