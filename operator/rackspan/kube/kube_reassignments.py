"""`reconcile.ports.ReassignmentObjects` over the Kubernetes API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.kube.paths import REASSIGNMENTS
from rackspan.kube.rest import ConflictError, NotFoundError, Rest
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.informer import key_of

if TYPE_CHECKING:
    from rackspan.api.reassignment import Reassignment
    from rackspan.reconcile.ports import JsonObject


class KubeReassignments:
    """Plans read; Reassignments made, deleted, and their statuses written at a resourceVersion."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def create(self, body: JsonObject) -> JsonObject | None:
        """The object as written; None where one of that name is there already."""
        key = key_of(body)
        try:
            return await self._rest.post("create_reassignment", REASSIGNMENTS.in_namespace(key.namespace), body)
        except ConflictError:
            return None
        except NotFoundError as error:
            what = f"Reassignment {key} cannot be made: {error}"
            raise FailureError(Failure(Reason.API_SERVER_REFUSED, what, Remedy.RETRY)) from error

    async def plan(self, known: Reassignment) -> str | None:
        """The text of `spec.plan` of this very object; None where it is gone."""
        path = REASSIGNMENTS.collection_of_one(known.key)
        found = (await self._rest.get("find_reassignment", path)).get("items") or ()
        return next((one["spec"]["plan"] for one in found if one["metadata"]["uid"] == known.meta.uid), None)

    async def write_status(self, known: Reassignment, status: JsonObject) -> JsonObject | None:
        """Replace the status of an object that is as it is known; as written, None where it changed or is gone."""
        path, meta = REASSIGNMENTS.object(known.key, "status"), known.meta
        try:
            return await self._rest.replace_status(
                "replace_reassignment_status", path, meta.uid, status, meta.resource_version
            )
        except (ConflictError, NotFoundError):
            return None

    async def delete(self, known: Reassignment) -> None:
        """Delete this very object. Succeeds where it is gone already."""
        options = {"preconditions": {"uid": known.meta.uid}}
        try:
            await self._rest.delete("delete_reassignment", REASSIGNMENTS.object(known.key), options)
        except (ConflictError, NotFoundError):
            return
