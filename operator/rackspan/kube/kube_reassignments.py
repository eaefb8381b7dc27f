"""`reconcile.ports.ReassignmentObjects` over the Kubernetes API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.kube.paths import REASSIGNMENTS
from rackspan.kube.rest import ConflictError, NotFoundError, Rest

if TYPE_CHECKING:
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.ports import JsonObject


class KubeReassignments:
    """Creates and deletes Reassignments, reads their plans, and writes their statuses at a resourceVersion."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def create(self, body: JsonObject) -> JsonObject | None:
        """Create a Reassignment and return it as written, or None if the name is already in use."""
        path = REASSIGNMENTS.in_namespace(body["metadata"]["namespace"])
        return await self._rest.create("create_reassignment", path, body)

    async def plan(self, known: Reassignment) -> str | None:
        """Return the text of `spec.plan` of this object (by uid), or None if the object is deleted."""
        path = REASSIGNMENTS.collection_of_one(known.key)
        found = (await self._rest.get("find_reassignment", path)).get("items") or ()
        return next((one["spec"]["plan"] for one in found if one["metadata"]["uid"] == known.meta.uid), None)

    async def write_status(self, known: Reassignment, status: JsonObject) -> JsonObject | None:
        """Replace the status. Return the object as written, or None if it changed since `known` or is deleted."""
        path, meta = REASSIGNMENTS.object(known.key, "status"), known.meta
        try:
            return await self._rest.replace_status(
                "replace_reassignment_status", path, meta.uid, status, meta.resource_version
            )
        except (ConflictError, NotFoundError):
            return None

    async def delete(self, known: Reassignment) -> None:
        """Delete this object (by uid). Succeeds if the object is already deleted."""
        await self._rest.delete("delete_reassignment", REASSIGNMENTS.object(known.key), known.meta.uid)
