"""Asks the operator for a scan by the annotation `rackspan.dev/scan-now`, and waits until the scan has ended."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.compliancereport import ComplianceReport
from rackspan.api.labels import SCAN_NOW
from rackspan.api.racktopology import LastScan, ScanState
from rackspan.api.reasons import Reason
from rackspan.kube.paths import REPORTS, TOPOLOGIES
from rackspan.kube.rest import NotFoundError, Rest, connected
from rackspan.kube.topology_edits import TopologyEdits
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rackspan.api.meta import ObjectKey

_POLL_SECONDS = 2.0
_ENDED = frozenset({ScanState.COMPLETED, ScanState.FAILED})


@dataclass(frozen=True, slots=True)
class FinishedScan:
    """A scan that the operator started and that has ended, and the report it wrote, if it did."""

    scan: LastScan
    report: ComplianceReport | None


async def request_scan(
    key: ObjectKey, announce: Callable[[str], None], patience: float, kubeconfig: Path | None = None
) -> FinishedScan:
    """
    Ask for a scan of a topology, and wait until it has ended, for `patience` seconds at most.

    `announce` is called with each step, in words for people.

    Raises FailureError: no such topology, no right to annotate it, or the operator did not get to it in time.
    """
    try:
        # wait_for can swallow a cancellation up to Python 3.11
        async with connected(kubeconfig, "rackspan-cli") as rest, asyncio.timeout(patience):
            return await follow_scan(rest, key, announce)
    except NotFoundError as error:
        raise FailureError(
            Failure(Reason.TOPOLOGY_NOT_FOUND, f"there is no RackTopology {key}", Remedy.ACCESS)
        ) from error
    except TimeoutError as error:
        words = f"no scan of {key} has ended within {patience:g} s; see the condition Scanned of the RackTopology"
        raise FailureError(Failure(Reason.WAITING, words, Remedy.RETRY)) from error


async def follow_scan(rest: Rest, key: ObjectKey, announce: Callable[[str], None]) -> FinishedScan:
    """Ask for a scan, and wait until it has ended. Raises NotFoundError without such a topology, and FailureError."""
    topology, value = TopologyEdits(rest, key), f"cli-{secrets.token_hex(4)}"
    patch = {"metadata": {"annotations": {SCAN_NOW: value}}}
    await rest.merge_patch("request_scan", TOPOLOGIES.object(key), patch)
    announce("asked the operator")
    while True:
        status = (await topology.read()).status
        scan = status.last_scan
        if status.scans is not None and status.scans.handled_request == value and scan is not None:
            if scan.state in _ENDED:
                return FinishedScan(scan, await _report(rest, key, scan.scan_id))
            announce(f"scan {scan.scan_id} is {scan.state.lower()}")
        await asyncio.sleep(_POLL_SECONDS)


async def _report(rest: Rest, key: ObjectKey, scan_id: str) -> ComplianceReport | None:
    try:
        found = ComplianceReport.from_object(await rest.get("get_report", REPORTS.object(key)))
    except NotFoundError:
        return None
    return found if found.status.scan_id == scan_id else None
