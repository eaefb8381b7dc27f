"""A scan's Job or SparkApplication: the port that starts and lists it, and the state of it and its pods. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from rackspan.api.codec import moment_of
from rackspan.api.labels import (
    SCAN_CAUSE,
    SCAN_DEADLINE,
    SCAN_TOPOLOGY,
    SCAN_TOPOLOGY_NAMESPACE,
    SCAN_TRIGGER,
    TOPOLOGY_UID,
)
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import ScanTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.reconcile.ports import JsonObject


class RunKind(StrEnum):
    """The kind of object that runs a scan."""

    JOB = "Job"
    SPARK_APPLICATION = "SparkApplication"


_SUCCEEDED_STATES = frozenset({"COMPLETED"})
_FAILED_STATES = frozenset({"FAILED"})
"""Final states of a SparkApplication. SUBMISSION_FAILED is not final: the Spark operator retries, or sets FAILED."""
DEADLINE_EXCEEDED = "DeadlineExceeded"
"""The reason of a Job that ran longer than its activeDeadlineSeconds."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """One scan, as described by its Job or SparkApplication.

    `trigger` is None if only a newer version knows it. `cause` depends on it: the scheduled time, the value of
    scan-now, or the topology's fingerprint. `succeeded` is meaningful once `finished` is set.
    """

    kind: RunKind
    name: str
    uid: str
    topology: ObjectKey
    topology_uid: str
    trigger: ScanTrigger | None
    cause: str
    created: datetime
    finished: datetime | None
    succeeded: bool
    reason: str
    message: str
    deleting: bool
    pending: bool
    """Whether the object reports no pod that is ready or has ended. The scan's pod may not have started then."""
    deadline: timedelta | None
    """How long the scan may take according to its object, or None."""

    @property
    def active(self) -> bool:
        """Whether the scan has not finished and is not being deleted."""
        return self.finished is None and not self.deleting


def read_run(kind: RunKind, body: Mapping[str, Any]) -> JobRun | None:
    """Return the scan that a Job or a SparkApplication runs, or None if the object lacks the labels of a scan."""
    metadata = body["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    created = moment_of(metadata.get("creationTimestamp"))
    # Label values have at most 63 characters, so names may be truncated there. Annotations have the full names.
    namespace = annotations.get(SCAN_TOPOLOGY_NAMESPACE) or labels.get(SCAN_TOPOLOGY_NAMESPACE)
    name = annotations.get(SCAN_TOPOLOGY) or labels.get(SCAN_TOPOLOGY)
    if not labels.get(SCAN_TRIGGER) or not namespace or not name or created is None:
        return None
    status = body.get("status") or {}
    finished, succeeded, reason, message = (_job if kind is RunKind.JOB else _spark_application)(status, created)
    return JobRun(
        kind,
        metadata["name"],
        metadata["uid"],
        ObjectKey(namespace, name),
        labels.get(TOPOLOGY_UID, ""),
        next((one for one in ScanTrigger if one == labels[SCAN_TRIGGER]), None),
        annotations.get(SCAN_CAUSE, ""),
        created,
        finished,
        succeeded,
        reason,
        message,
        metadata.get("deletionTimestamp") is not None,
        finished is None and _is_pending(kind, status),
        _deadline((body.get("spec") or {}).get("activeDeadlineSeconds") or annotations.get(SCAN_DEADLINE)),
    )


def why_unstarted(kind: RunKind, pods: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why no pod of a scan has started, or None if one has. The text is stable, for a condition's message."""
    if kind is RunKind.SPARK_APPLICATION:
        return "the Spark operator has not run it"
    if not pods:
        return "it has no pod: a quota or an admission rule may refuse it, see the Events of the Job"
    reasons = [_why_pod_is_pending(pod.get("status") or {}) for pod in pods]
    return None if None in reasons else str(reasons[-1])


def _why_pod_is_pending(status: Mapping[str, Any]) -> str | None:
    if status.get("phase", "Pending") != "Pending":
        return None
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in containers:
        reason = str(((container.get("state") or {}).get("waiting") or {}).get("reason", ""))
        if reason:
            image = container.get("image", "")
            known = _REASON_ALIASES.get(reason, reason)
            return _printable(f"{known}: image {image}" if known == "ImagePullBackOff" else known)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") != "True":
            return _printable(f"{condition.get('reason', 'Unschedulable')}: {condition.get('message', '')}")
    return "its pod is pending"


def _printable(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown.strip(" :")[:_MAX_REASON_CHARS]


def _is_pending(kind: RunKind, status: Mapping[str, Any]) -> bool:
    if kind is RunKind.JOB:
        return not any(status.get(count) for count in ("ready", "failed", "succeeded"))
    return (status.get("applicationState") or {}).get("state", "") in ("", "NEW", "SUBMITTED")


_REASON_ALIASES = {"ErrImagePull": "ImagePullBackOff"}
"""The kubelet alternates between these two reasons. They are shown as one, so that the condition does not flap."""
_MAX_REASON_CHARS = 300
_LONGEST_SECONDS = 31_536_000
"""The largest activeDeadlineSeconds of a RackTopology. The operator does not create objects with a larger value."""


def _job(status: JsonObject, created: datetime) -> tuple[datetime | None, bool, str, str]:
    """Return when the Job finished, whether it succeeded, the reason and the message."""
    for condition in status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            at = moment_of(condition.get("lastTransitionTime")) or created
            succeeded = condition["type"] == "Complete"
            return at, succeeded, condition.get("reason", ""), condition.get("message", "")
    return None, False, "", ""


def _spark_application(status: JsonObject, created: datetime) -> tuple[datetime | None, bool, str, str]:
    application_state = status.get("applicationState") or {}
    state = application_state.get("state", "")
    if state not in _SUCCEEDED_STATES | _FAILED_STATES:
        return None, False, "", ""
    at = moment_of(status.get("terminationTime")) or moment_of(status.get("lastSubmissionAttemptTime"))
    return at or created, state in _SUCCEEDED_STATES, state.title(), application_state.get("errorMessage", "")


def _deadline(seconds: Any) -> timedelta | None:
    try:
        return timedelta(seconds=int(seconds)) if 0 < int(seconds) <= _LONGEST_SECONDS else None
    except (TypeError, ValueError):
        return None


class ScanRuns(Protocol):
    """Jobs and SparkApplications in the namespace where scans run. Every call may raise FailureError."""

    async def runs(self, kind: RunKind) -> Sequence[JobRun]:
        """Return all scans of one kind of object. Empty if the API server does not serve the kind."""

    async def unstarted(self, runs: Sequence[JobRun]) -> Mapping[str, str]:
        """Return, by uid, why pods have not started, for the scans whose pods have not started."""

    async def start(self, body: JsonObject) -> bool:
        """Create the Job or SparkApplication. Return False if an object with this name exists."""

    async def delete(self, run: JobRun) -> None:
        """Delete the object by uid, and its pods in the background. Succeeds if it is deleted already."""
