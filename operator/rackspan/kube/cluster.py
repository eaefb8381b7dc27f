"""`reconcile.ports.Cluster` over the Kubernetes API."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING
from urllib.parse import quote

from rackspan.api import compliancereport, kafkatopic, racktopology
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
_PLURALS = {kind.KIND: kind.PLURAL for kind in (kafkatopic, racktopology, compliancereport)}
_OWN = f"/apis/{GROUP}/{VERSION}"
_COLLECTIONS = {
    **{kind: (_OWN, plural) for kind, plural in _PLURALS.items()},
    "Pod": ("/api/v1", "pods"),
    "Node": ("/api/v1", "nodes"),
    "Namespace": ("/api/v1", "namespaces"),
}
_NOT_IN_NAMESPACES = frozenset({"Node", "Namespace"})


class KubeCluster:
    """Statuses, finalizers, Secrets by name and Events. `namespaces` is None for all of them."""

    def __init__(self, rest: Rest, events: EventQueue, namespaces: Sequence[str] | None = None) -> None:
        self._rest = rest
        self._events = events
        self._namespaces = namespaces

    async def replace_status(self, ref: ObjectRef, status: JsonObject) -> JsonObject | None:
        """Make this the whole status; None where this very object (by uid) is gone."""
        try:
            return await self._rest.replace_status("replace_status", _path(ref.kind, ref.key), ref.uid, status)
        except (NotFoundError, ConflictError):
            return None

    async def set_finalizers(self, ref: ObjectRef, finalizers: Sequence[str], version: str) -> JsonObject | None:
        """Replace the finalizers of the object as it was at `version`; None where it changed or is gone."""
        body = {"metadata": {"uid": ref.uid, "resourceVersion": version, "finalizers": list(finalizers)}}
        try:
            return await self._rest.merge("patch_finalizers", _path(ref.kind, ref.key), body)
        except (NotFoundError, ConflictError):
            return None

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

    async def unserved(self) -> Collection[str]:
        """The kinds of Rackspan that the API server does not serve. Raises FailureError where it does not answer."""
        try:
            found = await self._rest.get("list_resources", _OWN)
        except NotFoundError:
            return tuple(_PLURALS)
        served = {item["kind"] for item in found["resources"]}
        return tuple(kind for kind in _PLURALS if kind not in served)

    async def list_keys(self, kind: str) -> Collection[ObjectKey]:
        """Which objects of a kind there are now; metadata only. An object of no namespace has an empty one."""
        prefix, plural = _COLLECTIONS[kind]
        watched = () if kind in _NOT_IN_NAMESPACES else self._namespaces or ()
        keys: set[ObjectKey] = set()
        for scope in [f"/namespaces/{quote(namespace)}" for namespace in watched] or [""]:
            token = ""
            while True:
                path = f"{prefix}{scope}/{plural}?limit={_PAGE}" + (f"&continue={quote(token)}" if token else "")
                page = await self._list_page(path)
                keys |= {
                    ObjectKey(item["metadata"].get("namespace", ""), item["metadata"]["name"])
                    for item in page.get("items") or ()  # an empty list of metadata only is null
                }
                token = page.get("metadata", {}).get("continue", "")
                if not token:
                    break
        return keys

    async def _list_page(self, path: str) -> JsonObject:
        try:
            return await self._rest.get("list_metadata", path, accept=_METADATA_ONLY)
        except NotFoundError as error:  # an API server that has just started may not serve custom resources yet
            raise FailureError(Failure(Reason.API_SERVER_UNREACHABLE, f"GET {path}: {error}", Remedy.RETRY)) from error

    def announce(self, announcement: Announcement) -> None:
        """Queue an Event; never waits and never fails."""
        self._events.put(announcement)


def _path(kind: str, key: ObjectKey) -> str:
    return f"{_OWN}/namespaces/{quote(key.namespace)}/{_PLURALS[kind]}/{quote(key.name)}"
