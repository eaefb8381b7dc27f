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
from rackspan.api.reasons import Reason
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
from rackspan.reconcile.failures import DeniedError, Failure, FailureError, Remedy
from rackspan.reconcile.ports import Listed, Terminating
from rackspan.reconcile.runtime.informer import key_of, version_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from rackspan.kube.event_queue import EventQueue
    from rackspan.kube.paths import ApiPath
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
    """Statuses, finalizers, Secrets by name and Events, of the watched `namespaces`; None is for all namespaces."""

    def __init__(self, rest: Rest, events: EventQueue, namespaces: Sequence[str] | None = None) -> None:
        self._rest = rest
        self._events = events
        self._namespaces = namespaces

    async def replace_status(self, ref: ObjectRef, status: JsonObject) -> JsonObject | None:
        """Make this the whole status; None where this very object (by uid) is gone. Raises FailureError.

        The answer alone does not tell that it is gone: a kind that is not served yet is not found, either, and what
        others write at the same time is a conflict, too.
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
        """Replace the finalizers of the object as it was at `version`, and add annotations; None where it changed."""
        metadata: JsonObject = {"finalizers": list(finalizers)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        return await self._patch_metadata("patch_finalizers", ref, version, metadata)

    async def remove_annotation(self, ref: ObjectRef, name: str, version: str) -> JsonObject | None:
        """Take one annotation off the object as it was at `version`; None where it changed or is gone."""
        return await self._patch_metadata("patch_annotations", ref, version, {"annotations": {name: None}})

    async def replace_annotation(self, ref: ObjectRef, name: str, value: str, version: str) -> JsonObject | None:
        """Give one annotation of the object as it was at `version` another value; None where it changed or is gone."""
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
        """Which of our definitions that deletions depend on, and of these namespaces, are being deleted."""
        names = tuple(f"{plural}.{GROUP}" for plural in (kafkatopic.PLURAL, racktopology.PLURAL))
        spaces = tuple(namespaces)
        paths = (
            *(DEFINITIONS.cluster_scoped(name) for name in names),
            *(NAMESPACES.cluster_scoped(name) for name in spaces),
        )
        found = await asyncio.gather(*map(self._ends, paths))  # at once: deletions wait for it, one turn after another
        definitions, ends = found[: len(names)], found[len(names) :]
        return Terminating(
            tuple(name for name, end in zip(names, definitions, strict=True) if end is not None),
            {name: end for name, end in zip(spaces, ends, strict=True) if end is not None},
        )

    async def _ends(self, path: ApiPath) -> datetime | None:
        """Since when the object is being deleted; None where it is not."""
        try:
            found = await self._rest.get("get_metadata", path, accept=METADATA)
        except NotFoundError:
            return datetime.min.replace(tzinfo=UTC)
        since = found["metadata"].get("deletionTimestamp")
        return None if since is None else datetime.fromisoformat(since)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """One Secret's data. Raises FailureError when it is not there, not readable or not base64."""
        try:
            found = await self._rest.get("get_secret", SECRETS.object(ObjectKey(namespace, name)))
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
            found = await self._rest.get("list_resources", RACKSPAN_API)
        except NotFoundError:
            return tuple(_OWN)
        served = {item.get("kind") for item in found.get("resources") or ()}
        return tuple(kind for kind in _OWN if kind not in served)

    async def with_finalizer(self, kind: str) -> Collection[Meta]:
        """The objects of a kind that carry our finalizer; none where the kind is not served. Metadata only."""
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
        """Which objects of one of Rackspan's kinds there are now; metadata only."""
        there: dict[ObjectKey, ObjectVersion] = {}
        try:
            async for item in self._each("list_metadata", kind, accept=METADATA_LIST):
                there[key_of(item)] = version_of(item)
        except DeniedError as error:
            return Listed(there, error.namespaces)
        return Listed(there)

    def objects(self, kind: str) -> AsyncIterator[JsonObject]:
        """Every object of one of Rackspan's kinds, whole, no more than a page of them in memory at once.

        Raises DeniedError at the end for namespaces that may not be read.
        """
        return self._each("list_objects", kind, accept=WHOLE)

    def reflectors(self, kind: str, listener: Listener) -> Sequence[KubeReflector]:
        """One for all namespaces, or for each that is watched; one for a kind that is in none."""
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
        """One object as it is now, by the right to list; None where it is gone. Raises FailureError."""
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
