"""`reconcile.scans.job_status.ScanRuns` over the Kubernetes API: the Jobs and SparkApplications of one namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.kube.kube_objects import ANY_PAGE
from rackspan.kube.paths import JOBS, PODS, SPARK_APPLICATIONS
from rackspan.kube.rest import NotFoundError, Rest
from rackspan.reconcile.failures import Remedy
from rackspan.reconcile.scans.job_status import JobRun, RunKind, read_run, why_unstarted
from rackspan.reconcile.scans.scan_manifests import SELECTOR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rackspan.reconcile.ports import JsonObject

_RESOURCES = {RunKind.JOB: JOBS, RunKind.SPARK_APPLICATION: SPARK_APPLICATIONS}


class KubeScanRuns:
    """The runs of scans in one namespace, found by label, so that no other objects are read."""

    def __init__(self, rest: Rest, namespace: str) -> None:
        self._rest = rest
        self._namespace = namespace

    async def runs(self, kind: RunKind) -> Sequence[JobRun]:
        """Return all runs of a kind. Without the Kubeflow operator there are no SparkApplications."""
        try:
            path = _RESOURCES[kind].in_namespace(self._namespace)
            items = await self._rest.list_all("list_scans", path, ANY_PAGE, query={"labelSelector": SELECTOR})
        except NotFoundError:
            return []
        return [run for item in items if (run := read_run(kind, item)) is not None]

    async def unstarted(self, runs: Sequence[JobRun]) -> Mapping[str, str]:
        """Return why the pods of these runs have not started, by the run's uid, without the runs that have started."""
        pods = await self._rest.list_all(
            "list_scan_pods", PODS.in_namespace(self._namespace), ANY_PAGE, query={"labelSelector": SELECTOR}
        )
        found: dict[str, str] = {}
        for run in runs:
            own = [pod for pod in pods if _job_of(pod) == run.uid]
            why = why_unstarted(run.kind, own)
            if why is not None:
                found[run.uid] = why
        return found

    async def start(self, body: JsonObject) -> bool:
        """Create the object that runs a scan. Return False if its name is already in use. Raises FailureError."""
        path = _RESOURCES[RunKind(body["kind"])].in_namespace(self._namespace)
        made = await self._rest.create("start_scan", path, body, Reason.SCAN_NOT_STARTED, Remedy.ACCESS)
        return made is not None

    async def delete(self, run: JobRun) -> None:
        """Delete this object (by uid), and then its pods."""
        path = _RESOURCES[run.kind].object(ObjectKey(self._namespace, run.name))
        await self._rest.delete("delete_scan", path, run.uid, propagationPolicy="Background")


def _job_of(pod: Mapping[str, Any]) -> str | None:
    """Return the uid of the Job that created a pod."""
    owners = pod.get("metadata", {}).get("ownerReferences") or ()
    return next((owner.get("uid") for owner in owners if owner.get("kind") == RunKind.JOB), None)
