"""Conditions that follow the Kubernetes API conventions and kstatus.

Ready is the summary. Reconciling and Stalled are abnormal if True, and absent otherwise. `kubectl wait`, Argo CD and
Flux understand these three conditions. The others give details.
"""

from collections.abc import Iterable
from datetime import UTC
from enum import StrEnum
from typing import Final

from rackspan.api.codec import ApiStruct, Time
from rackspan.api.meta import Meta
from rackspan.api.reasons import Reason

READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
COMPLIANT: Final = "Compliant"
CONNECTED: Final = "Connected"
RACKS_IN_SYNC: Final = "RacksInSync"
RACKS_PUBLISHED: Final = "RacksPublished"
RESTARTING: Final = "Restarting"
BROKERS_ONLINE: Final = "BrokersOnline"
SCANNED: Final = "Scanned"
PAUSED: Final = "Paused"
DRAINED: Final = "Drained"
DELETIONS_HELD: Final = "DeletionsHeld"
REASSIGNED: Final = "Reassigned"

MAX_MESSAGE: Final = 32768
"""Characters that the API server accepts in a message."""


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiStruct, frozen=True):
    """One aspect of an object's state. `last_transition_time` is in UTC and whole seconds, as the API stores it."""

    type: str
    status: ConditionStatus
    reason: str
    message: str
    last_transition_time: Time
    observed_generation: int | None = None


def set_condition(
    existing: Iterable[Condition],
    condition_type: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    *,
    generation: int,
    now: Time,
) -> tuple[Condition, ...]:
    """Return the conditions with one of them set. Their order does not change.

    `last_transition_time` becomes `now` only if the status changes, so that "not Ready for three hours" stays true
    while reasons and messages change.
    """
    conditions = tuple(existing)
    before = find_condition(conditions, condition_type)
    unchanged = before is not None and before.status == status
    after = Condition(
        type=condition_type,
        status=status,
        reason=str(reason),
        message=message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "...",
        last_transition_time=before.last_transition_time
        if before is not None and unchanged
        else now.astimezone(UTC).replace(microsecond=0),
        observed_generation=generation,
    )
    if before is None:
        return (*conditions, after)
    return tuple(after if condition is before else condition for condition in conditions)


def remove_condition(existing: Iterable[Condition], condition_type: str) -> tuple[Condition, ...]:
    """Return the conditions without one of them. Reconciling and Stalled are absent if all is well."""
    return tuple(condition for condition in existing if condition.type != condition_type)


class Conditions:
    """The conditions of one object while its next status is computed. `all` are the conditions so far."""

    def __init__(self, existing: tuple[Condition, ...], generation: int, now: Time) -> None:
        self.all = existing
        self._generation = generation
        self._now = now

    def set(self, kind: str, status: ConditionStatus, reason: str, message: str) -> None:
        """Set one condition, for this generation."""
        self.all = set_condition(self.all, kind, status, reason, message, generation=self._generation, now=self._now)

    def set_stalled(self, reason: str, message: str) -> None:
        """Set Stalled, and remove Reconciling."""
        self.remove(RECONCILING)
        self.set(STALLED, ConditionStatus.TRUE, reason, message)

    def set_reconciling(self, reason: str, message: str) -> None:
        """Set Reconciling, and remove Stalled."""
        self.remove(STALLED)
        self.set(RECONCILING, ConditionStatus.TRUE, reason, message)

    def set_paused(self, meta: Meta, consequence: str) -> None:
        """Set Paused if the object's annotation pauses it, with `consequence` as the message. Else remove Paused."""
        if not meta.is_paused:
            self.remove(PAUSED)
        elif meta.unclear_pause is not None:
            self.set(PAUSED, ConditionStatus.TRUE, Reason.INVALID_ANNOTATION, meta.unclear_pause)
        else:
            self.set(PAUSED, ConditionStatus.TRUE, Reason.PAUSED, consequence)

    def remove_abnormal(self) -> None:
        """Remove Stalled and Reconciling: kstatus expects them only while they are True."""
        self.remove(STALLED, RECONCILING)

    def remove(self, *kinds: str) -> None:
        """Remove the conditions of these types."""
        for kind in kinds:
            self.all = remove_condition(self.all, kind)


def find_condition(conditions: Iterable[Condition], condition_type: str) -> Condition | None:
    """Return the condition of a type, or None if it is absent."""
    return next((condition for condition in conditions if condition.type == condition_type), None)


def reason_of(conditions: Iterable[Condition], condition_type: str) -> str | None:
    """Return the reason of a condition, or None if the condition is absent."""
    condition = find_condition(conditions, condition_type)
    return None if condition is None else condition.reason


def is_true(conditions: Iterable[Condition], condition_type: str) -> bool:
    """Return whether a condition is present and True."""
    return _has_status(conditions, condition_type, ConditionStatus.TRUE)


def is_false(conditions: Iterable[Condition], condition_type: str) -> bool:
    """Return whether a condition is present and False. An Unknown condition is neither True nor False."""
    return _has_status(conditions, condition_type, ConditionStatus.FALSE)


def _has_status(conditions: Iterable[Condition], condition_type: str, status: ConditionStatus) -> bool:
    condition = find_condition(conditions, condition_type)
    return condition is not None and condition.status == status
