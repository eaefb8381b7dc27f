"""`reconcile.ports.KubeApi` over the Kubernetes API."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rackspan.api import compliancereport, kafkatopic, racktopology, reassignment
from rackspan.api.codec import SpecError
from rackspan.api.labels import FINALIZER, GROUP
from rackspan.api.meta import Meta, ObjectKey
from rackspan.kube.kube_objects import METADATA, METADATA_LIST, OWN_PAGE, WHOLE
from rackspan.kube.paths import (
    DEFINITIONS,
    NAMESPACES,
    NODES,
    PODS,
    RACKSPAN_API,
    REASSIGNMENTS,
    REPORTS,
    SECRETS,
    TOPICS,
    TOPOLOGIES,
)
from rackspan.kube.reflector import KubeReflector
from rackspan.kube.rest import ConflictError, ForbiddenError, NotFoundError, Rest, not_now
from rackspan.reconcile.cluster.client import unusable_secret
from rackspan.reconcile.failures import DeniedError
from rackspan.reconcile.ports import Listed, Terminating
from rackspan.reconcile.runtime.informer import key_of, version_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from rackspan.kube.event_queue import EventQueue
    from rackspan.kube.paths import ApiPath
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import JsonObject, KubernetesEvent, Listener, ObjectRef, ObjectVersion

_log = logging.getLogger("rackspan.kube")
_OWN = {
    kafkatopic.KIND: TOPICS,
    racktopology.KIND: TOPOLOGIES,
    compliancereport.KIND: REPORTS,
    reassignment.KIND: REASSIGNMENTS,
}
_CLUSTER_SCOPED = {"Node": NODES, "Namespace": NAMESPACES}


class KubeCluster:
    """Statuses, finalizers, Secrets (by name) and Events of the watched `namespaces`; None means all namespaces."""

    def __init__(self, rest: Rest, events: EventQueue, namespaces: Sequence[str] | None = None) -> None:
        self._rest = rest
        self._events = events
        self._namespaces = namespaces

    async def replace_status(self, ref: ObjectRef, status: JsonObject) -> JsonObject | None:
        """Replace the whole status. Return None if this object (by uid) is deleted. Raises FailureError.

        The response alone does not prove a deletion: it is also 404 if the kind is not served yet, and 409 if another
        client writes at the same time. So look up the object after these.
        """
        path = _OWN[ref.kind].object(ref.key, "status")
        try:
            return await self._rest.replace_status("replace_status", path, ref.uid, status)
        except (NotFoundError, ConflictError) as error:
            found = await self.find(ref.kind, ref.key)
            if found is None or found["metadata"]["uid"] != ref.uid:
                return None
            raise not_now("PATCH", path, error) from error

    async def set_finalizers(
        self, ref: ObjectRef, finalizers: Sequence[str], version: str, annotations: Mapping[str, str]
    ) -> JsonObject | None:
        """Set finalizers and add annotations at resourceVersion `version`. Return None on a conflict or if deleted."""
        metadata: JsonObject = {"finalizers": list(finalizers)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        return await self._patch_metadata("patch_finalizers", ref, version, metadata)

    async def set_annotation(self, ref: ObjectRef, name: str, value: str | None, version: str) -> JsonObject | None:
        """Set an annotation at resourceVersion `version`; None removes it. Return None on a conflict or if deleted."""
        return await self._patch_metadata("patch_annotations", ref, version, {"annotations": {name: value}})

    async def _patch_metadata(
        self, operation: str, ref: ObjectRef, version: str, metadata: JsonObject
    ) -> JsonObject | None:
        body = {"metadata": {"uid": ref.uid, "resourceVersion": version, **metadata}}
        try:
            return await self._rest.merge_patch(operation, _OWN[ref.kind].object(ref.key), body)
        except (NotFoundError, ConflictError):
            return None

    async def terminating(self, namespaces: Collection[str]) -> Terminating:
        """Return which of these namespaces, and of the CRDs that deletions need, are being deleted or do not exist."""
        names = tuple(f"{plural}.{GROUP}" for plural in (kafkatopic.PLURAL, racktopology.PLURAL))
        spaces = tuple(namespaces)
        paths = (
            *(DEFINITIONS.cluster_scoped(name) for name in names),
            *(NAMESPACES.cluster_scoped(name) for name in spaces),
        )
        found = await asyncio.gather(*map(self._ends, paths))  # in parallel: each turn of deletions waits for it
        definitions, ends = found[: len(names)], found[len(names) :]
        return Terminating(
            tuple(name for name, end in zip(names, definitions, strict=True) if end is not None),
            {name: end for name, end in zip(spaces, ends, strict=True) if end is not None},
        )

    async def _ends(self, path: ApiPath) -> datetime | None:
        """Return since when the object is being deleted, or None. For a deleted object, return the earliest time."""
        try:
            found = await self._rest.get("get_metadata", path, accept=METADATA)
        except NotFoundError:
            return datetime.min.replace(tzinfo=UTC)
        since = found["metadata"].get("deletionTimestamp")
        return None if since is None else datetime.fromisoformat(since)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """Return the data of one Secret. Raises FailureError if it does not exist, may not be read or is not base64."""
        try:
            found = await self._rest.get("get_secret", SECRETS.object(ObjectKey(namespace, name)))
            return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        except NotFoundError as error:
            raise unusable_secret(f"there is no Secret {name} in namespace {namespace}") from error
        except binascii.Error as error:
            raise unusable_secret(f"Secret {namespace}/{name} is not base64") from error

    async def unserved(self) -> Collection[str]:
        """Return Rackspan's kinds that the API server does not serve. Raises FailureError if it does not respond."""
        try:
            found = await self._rest.get("list_resources", RACKSPAN_API)
        except NotFoundError:
            return tuple(_OWN)
        served = {item.get("kind") for item in found.get("resources") or ()}
        return tuple(kind for kind in _OWN if kind not in served)

    async def with_finalizer(self, kind: str) -> Collection[Meta]:
        """Return the metadata of the objects of a kind that have our finalizer; none if the kind is not served."""
        found: dict[ObjectKey, Meta] = {}
        for path in self._lists(kind):
            try:
                async for item in self._rest.each("list_metadata", path, OWN_PAGE, accept=METADATA_LIST):
                    if FINALIZER in (item["metadata"].get("finalizers") or ()):
                        try:
                            found[key_of(item)] = Meta.from_object(item)
                        except SpecError as error:
                            _log.error("%s %s cannot be read, and keeps its finalizer: %s", kind, key_of(item), error)
            except NotFoundError:
                return ()
        return tuple(found.values())

    async def listed(self, kind: str) -> Listed:
        """Return which objects of one of Rackspan's kinds exist now. Read their metadata only."""
        there: dict[ObjectKey, ObjectVersion] = {}
        try:
            async for item in self._each("list_metadata", kind, accept=METADATA_LIST):
                there[key_of(item)] = version_of(item)
        except DeniedError as error:
            return Listed(there, error.namespaces)
        return Listed(there)

    def objects(self, kind: str) -> AsyncIterator[JsonObject]:
        """Yield every object of one of Rackspan's kinds, with spec and status, and at most one page in memory.

        Raises DeniedError at the end if some namespaces may not be read.
        """
        return self._each("list_objects", kind, accept=WHOLE)

    def reflectors(self, kind: str, listener: Listener) -> Sequence[KubeReflector]:
        """Return one reflector per watched namespace, or one for all namespaces, or one for a cluster-scoped kind."""
        if kind in _CLUSTER_SCOPED:
            path = _CLUSTER_SCOPED[kind].collection()
            return (KubeReflector(self._rest, path, "", listener, (METADATA_LIST, METADATA)),)
        if not self._namespaces:
            return (KubeReflector(self._rest, PODS.collection(), "", listener),)
        return tuple(KubeReflector(self._rest, PODS.in_namespace(name), name, listener) for name in self._namespaces)

    async def _each(self, operation: str, kind: str, *, accept: str) -> AsyncIterator[JsonObject]:
        denied: dict[str, Failure] = {}
        for namespace, path in zip(self._namespaces or ("",), self._lists(kind), strict=True):
            try:
                async for item in self._rest.each(operation, path, OWN_PAGE, accept=accept):
                    yield dict(item)
            except NotFoundError as error:
                raise not_now("GET", path, error) from error
            except ForbiddenError as error:
                if not namespace:
                    raise
                denied[namespace] = error.failure
        for failure in denied.values():
            raise DeniedError(failure, frozenset(denied))

    async def find(self, kind: str, key: ObjectKey) -> JsonObject | None:
        """Return the current object, or None if it is deleted. Needs only the right to list. Raises FailureError."""
        path = _OWN[kind].collection_of_one(key)
        try:
            found = OWN_PAGE.decode(await self._rest.read("find", path, WHOLE))
        except NotFoundError as error:
            raise not_now("GET", path, error) from error
        return next(map(dict, found), None)

    def _lists(self, kind: str) -> tuple[ApiPath, ...]:
        return _OWN[kind].collections(self._namespaces or ())

    def record_event(self, announcement: KubernetesEvent) -> None:
        """Queue an Event; never waits and never fails."""
        self._events.put(announcement)
