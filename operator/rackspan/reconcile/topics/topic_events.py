"""Kubernetes Events for the changes of a pass, and for conditions whose status changed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.conditions import (
    COMPLIANT,
    CONNECTED,
    DELETIONS_HELD,
    DRAINED,
    PAUSED,
    RACKS_IN_SYNC,
    READY,
    REASSIGNED,
    SCANNED,
    STALLED,
    ConditionStatus,
    find_condition,
)
from rackspan.api.reasons import Reason
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.text import plural
from rackspan.reconcile.plans.holds import PLAN_REASONS
from rackspan.reconcile.ports import KubernetesEvent
from rackspan.reconcile.specs.topic_configs import config_event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rackspan.api.conditions import Condition
    from rackspan.reconcile.ports import ObjectRef
    from rackspan.reconcile.topics.topic_decision import Outcome

_NO_STALLED_EVENT = frozenset(
    {
        Reason.PLAN_PENDING,
        Reason.PLAN_ABOVE_LIMIT,
        Reason.NOT_COMPLIANT,
        Reason.REPLICATION_FACTOR_DIFFERS,
        Reason.ASSIGNMENT_DIFFERS,
        Reason.HOLDS_UP_DRAIN,
        Reason.PAUSED,
    }
)
"""The Stalled reasons that already have an Event of Compliant or Paused."""
_GOOD_WHEN_TRUE = (COMPLIANT, CONNECTED, RACKS_IN_SYNC, SCANNED, DRAINED, PAUSED)
_UNSEEN = frozenset({Reason.KAFKA_UNREACHABLE, Reason.TOPOLOGY_NOT_READY, Reason.NOT_AUTHORIZED})
"""The reasons of a topic's Compliant while it is Unknown because Kafka cannot be read, and was True before."""


_CONFIGS_IN_PLACE = frozenset(
    {
        Reason.IN_SYNC,
        Reason.RACKS_SETTLING,
        Reason.NOT_COMPLIANT,
        Reason.REPLICATION_FACTOR_DIFFERS,
        Reason.ASSIGNMENT_DIFFERS,
        *PLAN_REASONS,
    }
)
"""The Ready reasons of a topic whose configs are as requested."""


def condition_events(
    about: ObjectRef, before: Sequence[Condition], after: Sequence[Condition], outcome: Outcome | None = None
) -> Iterator[KubernetesEvent]:
    """Yield the Events for one object from its conditions before and after a pass; none for unchanged conditions."""
    if outcome is not None:
        yield from _done(about, outcome)
    stalled = find_condition(after, STALLED)
    if stalled is not None and stalled.reason not in _NO_STALLED_EVENT and _changed(before, stalled):
        yield KubernetesEvent(about, stalled.reason, stalled.message, warning=True)
    moved = find_condition(after, REASSIGNED)
    if moved is not None and moved.reason == Reason.STALE_APPROVAL and _changed(before, moved):
        yield KubernetesEvent(about, moved.reason, moved.message, warning=True)
    waits = find_condition(after, DELETIONS_HELD)
    if waits is not None and find_condition(before, DELETIONS_HELD) is None:
        yield KubernetesEvent(about, waits.reason, waits.message, warning=True)
    for kind in _GOOD_WHEN_TRUE:
        was, now = find_condition(before, kind), find_condition(after, kind)
        if now is None or (was is not None and was.status == now.status):
            continue
        if now.status == ConditionStatus.FALSE:
            yield KubernetesEvent(about, now.reason, now.message, warning=now.reason != Reason.DRAINING)
        elif now.status == ConditionStatus.TRUE and was is not None and not _is_as_before(was):
            yield KubernetesEvent(about, now.reason, now.message)


def _is_as_before(was: Condition) -> bool:
    """Return whether a condition was True, then Unknown during an outage. Thousands of topics are: that is no news."""
    unseen = was.type == RACKS_IN_SYNC or (was.type == COMPLIANT and was.reason in _UNSEEN)
    return was.status == ConditionStatus.UNKNOWN and unseen


def _done(about: ObjectRef, outcome: Outcome) -> Iterator[KubernetesEvent]:
    if outcome.failures:
        return
    decision, topic = outcome.decision, outcome.topic
    own = None if outcome.is_foreign else outcome.seen
    if decision.create is not None:
        yield KubernetesEvent(about, Reason.CREATED, f"topic {topic.topic_name}: {decision.summary}")
    elif own is not None and topic.status.creating:
        yield KubernetesEvent(about, Reason.CREATED, f"topic {topic.topic_name} ({own.topic_id}) was made")
    elif own is not None and topic.status.topic_id is None:
        message = f"topic {topic.topic_name} ({own.topic_id}) was there and is managed from now on"
        yield KubernetesEvent(about, Reason.ADOPTED, message)
    if decision.grow is not None:
        message = f"topic {topic.topic_name}: grow to {plural(decision.grow.total, 'partition')}"
        yield KubernetesEvent(about, Reason.PARTITIONS_ADDED, message)
    if decision.configure is not None:
        yield config_event(about, decision.configure, "changed in Kafka, put back" if _was_as_asked(outcome) else "set")


def _was_as_asked(outcome: Outcome) -> bool:
    """Return whether the topic already had all configs of this generation, so that another client changed them."""
    topic, seen = outcome.topic, outcome.seen
    ready = find_condition(topic.status.conditions, READY)
    return (
        seen is not None
        and seen.topic_id == topic.status.topic_id
        and ready is not None
        and ready.observed_generation == topic.meta.generation
        and ready.reason in _CONFIGS_IN_PLACE
        and not _derived_anew(outcome)
    )


def _derived_anew(outcome: Outcome) -> bool:
    """Return whether the durability now gives another min.insync.replicas, because replicas have moved."""
    topic, change = outcome.topic, outcome.decision.configure
    if change is None or MIN_INSYNC in topic.spec.config_values:
        return False
    return change.set.get(MIN_INSYNC, "") not in ("", str(topic.status.min_in_sync_replicas))


def _changed(before: Sequence[Condition], condition: Condition) -> bool:
    was = find_condition(before, condition.type)
    return was is None or was.status != condition.status or was.reason != condition.reason
