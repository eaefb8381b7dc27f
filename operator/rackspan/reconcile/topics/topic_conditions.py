"""Conditions of a KafkaTopic, set one at a time. Pure: the clock is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.conditions import (
    PAUSED,
    RECONCILING,
    STALLED,
    Condition,
    ConditionStatus,
    remove_condition,
    set_condition,
)
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic

TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConditionValue:
    """What a condition says; its type, generation and transition time are added when it is set."""

    status: ConditionStatus
    reason: Reason
    message: str

    @classmethod
    def of_failure(cls, failure: Failure, status: ConditionStatus) -> ConditionValue:
        """The reason and message of a failure."""
        return cls(status, failure.reason, failure.message)


def with_condition(
    topic: KafkaTopic, conditions: tuple[Condition, ...], kind: str, value: ConditionValue, now: datetime
) -> tuple[Condition, ...]:
    """The conditions with the one of type `kind` replaced or added, for the topic's present generation."""
    return set_condition(
        conditions, kind, value.status, value.reason, value.message, generation=topic.meta.generation, now=now
    )


def with_stalled_or_reconciling(
    topic: KafkaTopic, conditions: tuple[Condition, ...], problem: Failure | None, now: datetime
) -> tuple[Condition, ...]:
    """The conditions with Stalled for a problem that a person has to solve, Reconciling for one that is retried.

    The other of the two is removed, and both where there is no problem: kstatus expects them only while they are True.
    """
    stalls = problem is not None and problem.remedy is not Remedy.RETRY
    if not stalls:
        conditions = remove_condition(conditions, STALLED)
    if problem is None or stalls:
        conditions = remove_condition(conditions, RECONCILING)
    if problem is None:
        return conditions
    value = ConditionValue.of_failure(problem, TRUE)
    return with_condition(topic, conditions, STALLED if stalls else RECONCILING, value, now)


def with_paused(topic: KafkaTopic, conditions: tuple[Condition, ...], now: datetime) -> tuple[Condition, ...]:
    """The conditions with Paused where the topic is paused, and without it where it is not."""
    if not topic.meta.is_paused:
        return remove_condition(conditions, PAUSED)
    invalid = invalid_pause(topic)
    value = ConditionValue(TRUE, Reason.PAUSED, "the annotation rackspan.dev/paused leaves the topic alone")
    return with_condition(
        topic, conditions, PAUSED, ConditionValue.of_failure(invalid, TRUE) if invalid else value, now
    )


def invalid_pause(topic: KafkaTopic) -> Failure | None:
    """What is wrong with a pause annotation that says neither yes nor no; the topic counts as paused meanwhile."""
    message = topic.meta.unclear_pause
    return Failure(Reason.INVALID_ANNOTATION, message, Remedy.SPEC) if message is not None else None
