"""What became of the Jobs and SparkApplications that scan: read from their objects. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rackspan.api.labels import (
    SCAN_CAUSE,
    SCAN_TOPOLOGY,
    SCAN_TOPOLOGY_NAMESPACE,
    SCAN_TOPOLOGY_UID,
    SCAN_TRIGGER,
)
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import ScanTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.reconcile.ports import JsonObject


class RunKind(StrEnum):
    """The kind of the object that runs a scan."""

    JOB = "Job"
    SPARK_APPLICATION = "SparkApplication"


_ENDED_WELL = frozenset({"COMPLETED"})
_ENDED_BADLY = frozenset({"FAILED"})
"""States of a SparkApplication that are final. After SUBMISSION_FAILED its operator tries again, or says FAILED."""
DEADLINE_EXCEEDED = "DeadlineExceeded"


@dataclass(frozen=True, slots=True)
class Run:
    """
    One scan, as the object that runs it tells.

    `cause` is the scheduled time, the value of scan-now or the topology's fingerprint, as `trigger` says. `succeeded`
    means nothing before `finished` is there.
    """

    kind: RunKind
    name: str
    uid: str
    topology: ObjectKey
    topology_uid: str
    trigger: ScanTrigger
    cause: str
    created: datetime
    finished: datetime | None = None
    succeeded: bool = False
    reason: str = ""
    message: str = ""
    deleting: bool = False
    pending: bool = False
    """Nothing of it runs as far as its object tells: its pod may not have started."""

    @property
    def active(self) -> bool:
        """Whether it still runs, or is still to run."""
        return self.finished is None and not self.deleting

    @property
    def scheduled_at(self) -> datetime | None:
        """When it was due, where a schedule started it."""
        return _time(self.cause) if self.trigger is ScanTrigger.SCHEDULE else None


def read_run(kind: RunKind, body: Mapping[str, Any]) -> Run | None:
    """The scan that a Job or a SparkApplication runs; None where its labels are not those of one."""
    metadata = body["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    try:
        trigger = ScanTrigger(labels.get(SCAN_TRIGGER, ""))
        created = _time(metadata["creationTimestamp"])
    except (ValueError, KeyError):
        return None
    # The labels may be cut; the annotations are not.
    namespace = annotations.get(SCAN_TOPOLOGY_NAMESPACE) or labels.get(SCAN_TOPOLOGY_NAMESPACE)
    name = annotations.get(SCAN_TOPOLOGY) or labels.get(SCAN_TOPOLOGY)
    if not namespace or not name or created is None:
        return None
    finished, succeeded, reason, message = (_job if kind is RunKind.JOB else _application)(
        body.get("status") or {}, created
    )
    status = body.get("status") or {}
    return Run(
        kind,
        metadata["name"],
        metadata["uid"],
        ObjectKey(namespace, name),
        labels.get(SCAN_TOPOLOGY_UID, ""),
        trigger,
        annotations.get(SCAN_CAUSE, ""),
        created,
        finished,
        succeeded,
        reason,
        message,
        metadata.get("deletionTimestamp") is not None,
        finished is None and _PENDING[kind](status),
    )


def why_unstarted(kind: RunKind, pods: Sequence[Mapping[str, Any]]) -> str | None:
    """Why the pods of a scan have not started; None where one has. Steady words: they stand in a condition."""
    if kind is RunKind.SPARK_APPLICATION:
        return "the Spark operator has not run it"
    if not pods:
        return "it has no pod: a quota or an admission rule may refuse it, see the Events of the Job"
    reasons = [_why_pod_waits(pod.get("status") or {}) for pod in pods]
    return None if None in reasons else str(reasons[-1])


def _why_pod_waits(status: Mapping[str, Any]) -> str | None:
    if status.get("phase", "Pending") != "Pending":
        return None
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in containers:
        reason = str(((container.get("state") or {}).get("waiting") or {}).get("reason", ""))
        if reason:
            image = container.get("image", "")
            known = _STEADY.get(reason, reason)
            return _line(f"{known}: image {image}" if known == "ImagePullBackOff" else known)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return _line(f"{condition.get('reason', 'Unschedulable')}: {condition.get('message', '')}")
    return "its pod is pending"


def _line(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown.strip(" :")[:_MAX_WORDS]


def _is_pending_job(status: Mapping[str, Any]) -> bool:
    return not any(status.get(count) for count in ("ready", "failed", "succeeded"))


def _is_pending_application(status: Mapping[str, Any]) -> bool:
    return (status.get("applicationState") or {}).get("state", "") in ("", "NEW", "SUBMITTED")


_PENDING = {RunKind.JOB: _is_pending_job, RunKind.SPARK_APPLICATION: _is_pending_application}
_STEADY = {"ErrImagePull": "ImagePullBackOff"}
"""Reasons that come and go by turns, by the one that stands for both."""
_MAX_WORDS = 300


def _job(status: JsonObject, created: datetime) -> tuple[datetime | None, bool, str, str]:
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            at = _time(condition.get("lastTransitionTime")) or created
            succeeded = condition["type"] == "Complete"
            return at, succeeded, condition.get("reason", ""), condition.get("message", "")
    return None, False, "", ""


def _application(status: JsonObject, created: datetime) -> tuple[datetime | None, bool, str, str]:
    told = status.get("applicationState") or {}
    state = told.get("state", "")
    if state not in _ENDED_WELL | _ENDED_BADLY:
        return None, False, "", ""
    at = _time(status.get("terminationTime")) or _time(status.get("lastSubmissionAttemptTime"))
    return at or created, state in _ENDED_WELL, state.title(), told.get("errorMessage", "")


def _time(text: Any) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except ValueError:
        return None
