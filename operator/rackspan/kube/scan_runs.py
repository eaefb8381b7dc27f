"""`reconcile.ports.ScanRuns` over the Kubernetes API: the Jobs and SparkApplications of one namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from rackspan.api.reasons import Reason
from rackspan.kube.rest import ConflictError, NotFoundError, Rest
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.scans.bodies import SELECTOR
from rackspan.reconcile.scans.runs import Run, RunKind, read_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.reconcile.ports import JsonObject

_PREFIXES = {
    RunKind.JOB: ("/apis/batch/v1", "jobs"),
    RunKind.SPARK_APPLICATION: ("/apis/sparkoperator.k8s.io/v1beta2", "sparkapplications"),
}
_PAGE = 500


class KubeScanRuns:
    """Lists by label, so that nothing else in the namespace is read."""

    def __init__(self, rest: Rest, namespace: str) -> None:
        self._rest = rest
        self._namespace = namespace

    async def runs(self, *, applications: bool) -> Sequence[Run]:
        """All scans that there are. Where there is no Kubeflow operator, there are no SparkApplications."""
        kinds = [RunKind.JOB, RunKind.SPARK_APPLICATION] if applications else [RunKind.JOB]
        return [run for kind in kinds for run in await self._list(kind)]

    async def start(self, body: JsonObject) -> bool:
        """Create what scans; False where one of that name is there already. Raises FailureError."""
        kind = RunKind(body["kind"])
        try:
            await self._rest.post("start_scan", self._path(kind), body)
        except ConflictError:
            return False
        except NotFoundError as error:
            what = f"{kind} {self._namespace}/{body['metadata']['name']} cannot be made: {error}"
            raise FailureError(Failure(Reason.SCAN_NOT_STARTED, what, Remedy.ACCESS)) from error
        return True

    async def delete(self, run: Run) -> None:
        """Delete this very object, and its pods after it."""
        options = {"propagationPolicy": "Background", "preconditions": {"uid": run.uid}}
        try:
            await self._rest.delete("delete_scan", f"{self._path(run.kind)}/{quote(run.name)}", options)
        except (NotFoundError, ConflictError):
            return  # it is gone, or it is another one by now

    async def _list(self, kind: RunKind) -> list[Run]:
        found: list[Run] = []
        token = ""
        while True:
            query = f"?labelSelector={quote(SELECTOR)}&limit={_PAGE}" + (f"&continue={quote(token)}" if token else "")
            try:
                page = await self._rest.get("list_scans", self._path(kind) + query)
            except NotFoundError:
                return found
            found += [run for item in page.get("items") or () if (run := read_run(kind, item)) is not None]
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return found

    def _path(self, kind: RunKind) -> str:
        prefix, plural = _PREFIXES[kind]
        return f"{prefix}/namespaces/{quote(self._namespace)}/{plural}"
