"""`reconcile.runtime.lease.LeaseStore` over the Kubernetes API: one Lease of `coordination.k8s.io`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rackspan.api.codec import moment_of
from rackspan.kube.paths import LEASES
from rackspan.kube.rest import ConflictError, NotFoundError, Rest
from rackspan.reconcile.failures import Remedy
from rackspan.reconcile.runtime.lease import LeaseRecord
from rackspan.reconcile.runtime.lease_timing import LEASE_SECONDS

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.ports import JsonObject


class KubeLease:
    """One Lease. Each write requires the resourceVersion that was read, so only one of two candidates acquires it."""

    def __init__(self, rest: Rest, key: ObjectKey) -> None:
        self._rest = rest
        self._key = key

    async def read(self) -> LeaseRecord | None:
        """Return the record of the Lease, or None if there is no Lease. Raises FailureError."""
        try:
            return _record(await self._rest.get("get_lease", LEASES.object(self._key)))
        except NotFoundError:
            return None

    async def write(self, record: LeaseRecord, *, taken: bool) -> LeaseRecord | None:
        """Update the Lease at `record.version`, or create it. Return None if another candidate was faster.

        `taken` also sets the time at which the Lease was acquired. Raises FailureError.
        """
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec: dict[str, Any] = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": record.duration_seconds,
            "leaseTransitions": record.transitions,
            "renewTime": now,
            **({"acquireTime": now} if taken else {}),
        }
        if record.version:
            return await self._patch(record.version, spec)
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        path = LEASES.in_namespace(self._key.namespace)
        written = await self._rest.create("create_lease", path, body, remedy=Remedy.ACCESS)
        return None if written is None else _record(written)

    async def release(self, identity: str) -> None:
        """Release the Lease if `identity` holds it. Raises FailureError.

        A renewal that was cancelled may still take effect between the read and the write.
        """
        released = None
        while released is None and (record := await self.read()) is not None and record.holder == identity:
            released = await self._patch(record.version, {"holderIdentity": "", "leaseDurationSeconds": 1})

    async def _patch(self, version: str, spec: dict[str, Any]) -> LeaseRecord | None:
        body = {"metadata": {"resourceVersion": version}, "spec": spec}
        try:
            return _record(await self._rest.merge_patch("patch_lease", LEASES.object(self._key), body))
        except (ConflictError, NotFoundError):
            return None


def _record(body: JsonObject) -> LeaseRecord:
    spec = body.get("spec") or {}
    return LeaseRecord(
        holder=spec.get("holderIdentity") or "",
        duration_seconds=spec.get("leaseDurationSeconds") or LEASE_SECONDS,
        transitions=spec.get("leaseTransitions") or 0,
        version=body["metadata"]["resourceVersion"],
        renewed_at=moment_of(spec.get("renewTime")),
    )
