"""What people are told of a Reassignment as Kubernetes Events: on itself, and on its RackTopology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rackspan.api import racktopology, reassignment
from rackspan.api.reassignment import ReassignmentState
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef

if TYPE_CHECKING:
    from rackspan.api.racktopology import RackTopology
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.ports import KubeApi

_REASONS: Final = {
    ReassignmentState.RUNNING: "ReassignmentStarted",
    ReassignmentState.CANCELLING: "ReassignmentCancelling",
    ReassignmentState.SUCCEEDED: "ReassignmentCompleted",
    ReassignmentState.FAILED: "ReassignmentFailed",
    ReassignmentState.CANCELLED: "ReassignmentCancelled",
    ReassignmentState.STOPPED: "ReassignmentStopped",
}
_LEFT: Final = "ThrottlesLeft"
_WARNINGS: Final = (ReassignmentState.FAILED, ReassignmentState.STOPPED, None)


def post_events(
    kube: KubeApi, one: Reassignment, topology: RackTopology | None, state: ReassignmentState | None, message: str
) -> None:
    """Queue Events about a new state; None says that the object goes and throttles may be left."""
    reason = _LEFT if state is None else _REASONS.get(state)
    if reason is None:
        return
    warning, text = (
        state in _WARNINGS,
        f"plan {one.spec.plan_hash}: {message}" if message else f"plan {one.spec.plan_hash}",
    )
    kube.record_event(KubernetesEvent(ObjectRef(reassignment.KIND, one.key, one.meta.uid), reason, text, warning))
    if topology is not None:
        about = ObjectRef(racktopology.KIND, topology.key, topology.meta.uid)
        kube.record_event(KubernetesEvent(about, reason, f"Reassignment {one.meta.name}: {message}", warning))
