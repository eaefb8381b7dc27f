"""The port through which scans are started and watched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.reconcile.ports import JsonObject
    from rackspan.reconcile.scans.job_status import Run, RunKind


class ScanRuns(Protocol):
    """Jobs and SparkApplications in the namespace where scans run. Every call raises FailureError."""

    async def runs(self, kind: RunKind) -> Sequence[Run]:
        """All scans of one kind of object; empty where the API server does not serve the kind."""

    async def unstarted(self, runs: Sequence[Run]) -> Mapping[str, str]:
        """Of those whose pods have not started, by uid: why."""

    async def start(self, body: JsonObject) -> bool:
        """Create the Job or SparkApplication; False where one of that name exists."""

    async def delete(self, run: Run) -> None:
        """Delete the object by uid, and its pods in the background. Succeeds where it is gone already."""
