"""Publishes the results of a scan in Kubernetes: as a ComplianceReport, and as an OpenReports Report."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from typing import TYPE_CHECKING, Any

from rackspan.api import compliancereport, racktopology
from rackspan.api.compliancereport import ComplianceReportStatus
from rackspan.api.labels import API_VERSION
from rackspan.api.racktopology import ScanEngine
from rackspan.api.reasons import Reason
from rackspan.kube.paths import REPORTS, TOPOLOGIES, Resource
from rackspan.kube.rest import ConflictError, NotFoundError, Rest, connected
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reports import open_reports
from rackspan.reports.compliance_report import compliance_status, is_older
from rackspan.reports.open_reports import open_report

if TYPE_CHECKING:
    from pathlib import Path

    from rackspan.api.meta import ObjectKey
    from rackspan.reports.document import ScanDocument

_log = logging.getLogger("rackspan.kube")
_OPEN_REPORTS = Resource(f"/apis/{open_reports.GROUP}/{open_reports.VERSION}", open_reports.PLURAL)
_MANAGER = "rackspan-scan"
_ATTEMPTS, _PAUSE_SECONDS = 8, 0.5


async def publish_scan(document: ScanDocument, topology: ObjectKey, kubeconfig: Path | None = None) -> None:
    """Publish a scan over a new connection: of the kubeconfig, else the pod's account, else the default kubeconfig.

    Raises FailureError if the API server does not accept the report, and NotFoundError if the topology does not exist.
    """
    async with connected(kubeconfig, _MANAGER) as rest:
        await publish_scan_with(rest, document, topology)


async def publish_scan_with(rest: Rest, document: ScanDocument, topology: ObjectKey) -> None:
    """Create or update the topology's ComplianceReport, and its OpenReports Report if the cluster has that kind.

    Both have the topology's namespace and name, and are deleted with it. A scan is not published if it began before the
    scan of the existing report. If another client has changed the report meanwhile, read it and try again. The Report
    is for other tools, so its errors are logged and not raised.
    """
    for _ in range(_ATTEMPTS):
        found = await rest.get("get_topology", TOPOLOGIES.object(topology))
        uid = found["metadata"]["uid"]
        named = ((found.get("spec") or {}).get("compliance") or {}).get("engine")
        engine = next((one for one in ScanEngine if one == named), None)  # a newer version may have named another
        try:
            is_published = await _publish_compliance_report(rest, document, topology, uid, engine)
        except ConflictError:
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        if is_published:
            await _publish_open_report(rest, document, topology, uid)
        return
    what = f"ComplianceReport {topology} is changed by others all the time: scan again"
    raise FailureError(Failure(Reason.API_SERVER_UNREACHABLE, what, Remedy.RETRY))


async def _publish_compliance_report(
    rest: Rest, document: ScanDocument, topology: ObjectKey, uid: str, engine: ScanEngine | None
) -> bool:
    frame: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": compliancereport.KIND,
        "metadata": {
            "namespace": topology.namespace,
            "name": topology.name,
            "ownerReferences": [_owner(topology, uid)],
        },
    }
    spec = {"topologyRef": {"name": topology.name}}
    present = await rest.apply("apply_report", REPORTS.object(topology), {**frame, "spec": spec}, manager=_MANAGER)
    before, now = present.get("status") or {}, dt.datetime.now(dt.UTC)
    if is_older(document, before, now):
        _log.warning("scan %s began before the one in the report of %s: not published", document.scan_id, topology)
        return False
    status = compliance_status(
        document,
        ComplianceReportStatus.from_dict(before),
        generation=present["metadata"]["generation"],
        now=now,
        engine=engine,
    )
    # Not by apply: if a map loses its last key, such as the counts by rule, apply leaves a null, which is rejected.
    path, meta = REPORTS.object(topology, "status"), present["metadata"]
    await rest.replace_status("replace_report_status", path, meta["uid"], status.to_dict(), meta["resourceVersion"])
    return True


async def _publish_open_report(rest: Rest, document: ScanDocument, topology: ObjectKey, uid: str) -> None:
    body = open_report(document, topology, uid)
    body["metadata"]["ownerReferences"] = [_owner(topology, uid)]
    try:
        await rest.apply("apply_open_report", _OPEN_REPORTS.object(topology), body, manager=_MANAGER)
    except NotFoundError:
        _log.info("there are no OpenReports in this cluster")
    except (ConflictError, FailureError) as error:
        _log.warning("the OpenReports Report was not written: %s", error)


def _owner(topology: ObjectKey, uid: str) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": racktopology.KIND, "name": topology.name, "uid": uid}
