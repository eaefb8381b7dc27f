"""`reconcile.ports.Cluster` over the Kubernetes API."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rackspan.api import kafkatopic, racktopology
from rackspan.api.labels import GROUP, VERSION
from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.kube.rest import ConflictError, NotFoundError, Rest
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rackspan.kube.events import EventQueue
    from rackspan.reconcile.ports import Announcement, JsonObject, ObjectRef

_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = 500
_PLURALS = {kind.KIND: kind.PLURAL for kind in (kafkatopic, racktopology)}


class KubeCluster:
    """Statuses, finalizers, Secrets by name and Events. `namespaces` is None for all of them."""

    def __init__(self, rest: Rest, events: EventQueue, namespaces: Sequence[str] | None = None) -> None:
        self._rest = rest
        self._events = events
        self._namespaces = namespaces

    async def patch_status(self, ref: ObjectRef, patch: JsonObject) -> JsonObject | None:
        """Merge into /status; None where this very object (by uid) is gone."""
        body = {"metadata": {"uid": ref.uid}, "status": patch}
        return await self._merge("patch_status", f"{_path(ref.kind, ref.key)}/status", body)

    async def set_finalizers(self, ref: ObjectRef, finalizers: Sequence[str], version: str) -> JsonObject | None:
        """Replace the finalizers of the object as it was at `version`; None where it changed or is gone."""
        body = {"metadata": {"uid": ref.uid, "resourceVersion": version, "finalizers": list(finalizers)}}
        return await self._merge("patch_finalizers", _path(ref.kind, ref.key), body)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """One Secret's data. Raises FailureError when it is not there, not readable or not base64."""
        path = f"/api/v1/namespaces/{quote(namespace)}/secrets/{quote(name)}"
        try:
            found = await self._rest.get("get_secret", path)
            return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        except NotFoundError as error:
            raise FailureError(
                Failure(Reason.SECRET_NOT_FOUND, f"there is no Secret {name} in namespace {namespace}", Remedy.ACCESS)
            ) from error
        except binascii.Error as error:
            raise FailureError(
                Failure(Reason.SECRET_NOT_FOUND, f"Secret {namespace}/{name} is not base64", Remedy.ACCESS)
            ) from error

    async def list_keys(self, kind: str) -> Collection[ObjectKey]:
        """Which objects of a kind there are now; metadata only."""
        keys: set[ObjectKey] = set()
        scopes = [f"/namespaces/{quote(namespace)}" for namespace in self._namespaces or ()] or [""]
        for scope in scopes:
            token = ""
            while True:
                path = f"/apis/{GROUP}/{VERSION}{scope}/{_PLURALS[kind]}?limit={_PAGE}" + (
                    f"&continue={quote(token)}" if token else ""
                )
                page = await self._rest.get("list_metadata", path, accept=_METADATA_ONLY)
                keys |= {
                    ObjectKey(item["metadata"]["namespace"], item["metadata"]["name"]) for item in page.get("items", [])
                }
                token = page.get("metadata", {}).get("continue", "")
                if not token:
                    break
        return keys

    def announce(self, announcement: Announcement) -> None:
        """Queue an Event; never waits and never fails."""
        self._events.put(announcement)

    async def _merge(self, operation: str, path: str, body: dict[str, Any]) -> JsonObject | None:
        try:
            return await self._rest.merge(operation, path, body)
        except (NotFoundError, ConflictError):
            return None


def _path(kind: str, key: ObjectKey) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{quote(key.namespace)}/{_PLURALS[kind]}/{quote(key.name)}"
