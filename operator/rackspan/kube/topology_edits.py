"""Changes of a RackTopology by the command line: its drains, the approval of a plan, the request for a scan."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rackspan.api.codec import SpecError
from rackspan.api.compliancereport import ComplianceReport
from rackspan.api.drains import Drains
from rackspan.api.kafkatopic import KafkaTopic
from rackspan.api.labels import APPROVE_PLAN, SCAN_NOW
from rackspan.api.meta import ApiObject
from rackspan.api.racktopology import LastScan, RackTopology, ScanState
from rackspan.api.reasons import Reason
from rackspan.api.reassignment import Reassignment
from rackspan.kube.kube_objects import OWN_PAGE
from rackspan.kube.leases import KubeLease
from rackspan.kube.paths import REASSIGNMENTS, REPORTS, TOPICS, TOPOLOGIES, with_query
from rackspan.kube.rest import ConflictError, NotFoundError, Rest, connected
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.runtime.lease import LeaseRecord

T = TypeVar("T", bound=ApiObject)

_ATTEMPTS = 8
_CLIENT = "rackspan-cli"
_POLL_SECONDS = 2.0
_ENDED = frozenset({ScanState.COMPLETED, ScanState.FAILED})


@asynccontextmanager
async def topology_edits(key: ObjectKey, kubeconfig: Path | None) -> AsyncIterator[TopologyEdits]:
    """Yield a TopologyEdits for one RackTopology, with its own connection. Raises FailureError."""
    async with connected(kubeconfig, _CLIENT) as rest:
        yield TopologyEdits(rest, key)


class TopologyEdits:
    """Reads and changes one RackTopology. Methods raise FailureError if the API server refuses or is unreachable."""

    def __init__(self, rest: Rest, key: ObjectKey) -> None:
        self._rest = rest
        self._key = key

    async def read(self) -> RackTopology:
        """Return the current object."""
        return _topology(await self._get())

    async def change_drains(self, change: Callable[[Drains], Drains], *, dry_run: bool = False) -> RackTopology:
        """Replace the drains of the object by `change(drains)` and return the updated object.

        With `dry_run` the API server checks the change but does not store it. The patch applies only to the version
        that was read. If another client has changed the object meanwhile, read the object and try again.
        """
        path = TOPOLOGIES.object(self._key)
        if dry_run:
            path = with_query(path, {"dryRun": "All"})
        for _ in range(_ATTEMPTS):
            found = await self._get()
            topology, meta = _topology(found), found["metadata"]
            before = Drains.of(topology.spec)
            patch = change(before).patch(before)
            if not patch:
                return topology
            try:
                written = await self._rest.json_patch(
                    "patch_topology", path, patch, meta["uid"], meta["resourceVersion"]
                )
            except ConflictError:
                continue
            return _topology(written)
        raise _failure(f"RackTopology {self._key} is changed by others all the time", Reason.API_SERVER_UNREACHABLE)

    async def approve(self, plan_hash: str) -> None:
        """Annotate the object with the hash of the approved plan."""
        patch = {"metadata": {"annotations": {APPROVE_PLAN: plan_hash}}}
        try:
            await self._rest.merge_patch("approve_plan", TOPOLOGIES.object(self._key), patch)
        except NotFoundError as error:
            raise _gone(self._key) from error

    async def topics(self) -> tuple[KafkaTopic, ...]:
        """Return the KafkaTopics of the topology in all namespaces, without those that cannot be decoded."""
        found = [
            _read(KafkaTopic, item) async for item in self._rest.each("list_topics", TOPICS.collection(), OWN_PAGE)
        ]
        return tuple(one for one in found if one is not None and one.topology == self._key)

    async def reassignments(self) -> tuple[Reassignment, ...]:
        """Return the Reassignments of the topology in the order of their creation; none if the CRD is not installed."""
        try:
            path = REASSIGNMENTS.in_namespace(self._key.namespace)
            found = await self._rest.list_all("list_reassignments", path, OWN_PAGE)
        except NotFoundError:
            return ()
        read = [one for item in found if (one := _read(Reassignment, item)) is not None and one.topology == self._key]
        return tuple(sorted(read, key=lambda one: (one.meta.age, one.spec.part)))

    async def lease(self, key: ObjectKey) -> LeaseRecord | None:
        """Return the record of the operator's Lease, or None if there is no Lease."""
        return await KubeLease(self._rest, key).read()

    async def field_managers(self) -> tuple[str, ...]:
        """Return the managers that set the drains by server-side apply, such as Argo CD, and would revert a change."""
        managers = (await self._get())["metadata"].get("managedFields") or []
        return tuple(sorted({one.get("manager", "") for one in managers if _applies_drains(one)}))

    async def _get(self) -> dict[str, Any]:
        try:
            return await self._rest.get("get_topology", TOPOLOGIES.object(self._key))
        except NotFoundError as error:
            raise _gone(self._key) from error


def _applies_drains(entry: Mapping[str, Any]) -> bool:
    spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
    return entry.get("operation") == "Apply" and not {"f:drainBrokers", "f:drainRacks"}.isdisjoint(spec)


def _topology(found: Mapping[str, Any]) -> RackTopology:
    try:
        return RackTopology.from_object(found)
    except SpecError as error:
        raise _failure(f"the RackTopology cannot be read: {error}", Reason.INVALID_SPEC) from error


def _read(kind: type[T], found: Mapping[str, Any]) -> T | None:
    """Return an object of a kind, or None if it cannot be decoded."""
    try:
        return kind.from_object(found)
    except SpecError:
        return None


def _gone(key: ObjectKey) -> FailureError:
    return _failure(f"there is no RackTopology {key}", Reason.TOPOLOGY_NOT_FOUND)


def _failure(message: str, reason: Reason) -> FailureError:
    return FailureError(Failure(reason, message, Remedy.ACCESS))


@dataclass(frozen=True, slots=True)
class FinishedScan:
    """A scan that the operator started and that has ended, and its report, or None if it wrote none."""

    scan: LastScan
    report: ComplianceReport | None


async def request_scan(
    key: ObjectKey, announce: Callable[[str], None], patience: float, kubeconfig: Path | None = None
) -> FinishedScan:
    """Request a scan of a topology, and wait at most `patience` seconds until it has ended.

    `announce` is called with a text for the user at each step.

    Raises FailureError if the topology does not exist or may not be annotated, or if no scan has ended in time.
    """
    try:
        # wait_for can swallow a cancellation up to Python 3.11
        async with connected(kubeconfig, _CLIENT) as rest, asyncio.timeout(patience):
            return await follow_scan(rest, key, announce)
    except NotFoundError as error:
        raise _gone(key) from error
    except TimeoutError as error:
        words = f"no scan of {key} has ended within {patience:g} s; see the condition Scanned of the RackTopology"
        raise FailureError(Failure(Reason.WAITING, words, Remedy.RETRY)) from error


async def follow_scan(rest: Rest, key: ObjectKey, announce: Callable[[str], None]) -> FinishedScan:
    """Request a scan and wait until it has ended. Raises FailureError, and NotFoundError without such a topology.

    If another client requests a scan meanwhile, its scan may be returned: it begins later than the request.
    """
    topology, value = TopologyEdits(rest, key), f"cli-{secrets.token_hex(4)}"
    last = (await topology.read()).status.last_scan
    before = None if last is None else last.scan_id
    patch = {"metadata": {"annotations": {SCAN_NOW: value}}}
    await rest.merge_patch("request_scan", TOPOLOGIES.object(key), patch)
    announce("asked the operator")
    requests = {value}
    while True:
        found = await topology.read()
        requests.add(found.meta.annotations.get(SCAN_NOW, value))
        scans, scan = found.status.scans, found.status.last_scan
        is_handled = scans is not None and scans.handled_request in requests
        # An earlier version of the operator may record that a request is handled before it records the scan.
        if is_handled and scan is not None and scan.scan_id != before:
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
