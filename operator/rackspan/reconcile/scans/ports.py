"""What scans need from Kubernetes besides what all reconciling does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.reconcile.ports import JsonObject
    from rackspan.reconcile.scans.job_status import Run, RunKind


class ScanRuns(Protocol):
    """The namespace where scans run. Raises FailureError."""

    async def runs(self, kind: RunKind) -> Sequence[Run]:
        """All Jobs or SparkApplications that are scans; none where the kind is not served."""

    async def unstarted(self, runs: Sequence[Run]) -> Mapping[str, str]:
        """Why the pods of these have not started, by the run's uid; runs whose pods have are left out."""

    async def start(self, body: JsonObject) -> bool:
        """Create the Job or SparkApplication; False where one of that name is there already."""

    async def delete(self, run: Run) -> None:
        """Delete this very object, by uid, and its pods after it. One that is gone is no failure."""
