"""Passes a kind's watch events to its handler: each version of an object once, in any order of the events.

A change arrives several times (from the first list, as an event, in the response to a write), and events of an object
that was deleted and recreated under one name arrive in any order. The uid distinguishes them, and the body with the
newer resourceVersion wins.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rackspan.api.codec import SpecError
from rackspan.api.meta import ObjectKey
from rackspan.reconcile.ports import ObjectVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rackspan.reconcile.ports import KubeApi


POD: Final = "Pod"
NODE: Final = "Node"
NAMESPACE: Final = "Namespace"


class ObjectVersions:
    """The versions of the known objects, by kind and name. Not thread-safe: for one event loop."""

    def __init__(self) -> None:
        self._known: defaultdict[str, dict[ObjectKey, ObjectVersion]] = defaultdict(dict)
        self.deleted_uids: set[str] = set()
        """Uids deleted since the last `sweep` began. If the sweep reads such an object, its body is outdated."""
        self.unreadable: dict[tuple[str, ObjectKey], str] = {}
        """Why the newest version of an object cannot be read, by kind and name."""

    def record(self, kind: str, body: Mapping[str, Any], *, listed: bool = False) -> bool:
        """Record a body. Return whether it is new, so that it has to be handled.

        `listed` says that the body was read just now, and that no event about the object arrived meanwhile. Then an
        older version of the known object counts as new, too: etcd may have been restored from a backup. A body with
        another uid counts only if it is newer, because its object may have been deleted after the read.
        """
        key, received = key_of(body), version_of(body)
        known = self._known[kind].get(key)
        if known is not None:
            if listed and known.uid == received.uid:
                is_new = known.version != received.version
            else:
                is_new = _is_older(known.version, received.version)
            if not is_new:
                return False
        self._known[kind][key] = received
        return True

    def record_response(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Record the response to a write. Return whether it is new and the object was not deleted meanwhile."""
        known = self._known[kind].get(key_of(body))
        return known is not None and known.uid == version_of(body).uid and self.record(kind, body)

    def record_deletion(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Record a deletion. Return whether it is of the known object. An object recreated under its name stays."""
        key, uid = key_of(body), version_of(body).uid
        self.deleted_uids.add(uid)
        known = self._known[kind].get(key)
        if known is None or known.uid != uid:
            return False
        del self._known[kind][key]
        self.unreadable.pop((kind, key), None)
        return True

    def knows_another(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Return whether another object with the same name is known."""
        known = self._known[kind].get(key_of(body))
        return known is not None and known.uid != version_of(body).uid

    def latest(self, kind: str, key: ObjectKey) -> ObjectVersion | None:
        """Return the known object with this name, or None."""
        return self._known[kind].get(key)

    def known(self, kind: str) -> Mapping[ObjectKey, ObjectVersion]:
        """Return the objects that are known now."""
        return dict(self._known[kind])


def key_of(body: Mapping[str, Any]) -> ObjectKey:
    """Return the object's name and namespace. The namespace of a cluster-scoped object is empty."""
    metadata = body["metadata"]
    return ObjectKey(metadata.get("namespace") or "", metadata["name"])


def version_of(body: Mapping[str, Any]) -> ObjectVersion:
    """Return the object's uid and resourceVersion."""
    metadata = body["metadata"]
    return ObjectVersion(str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or ""))


def _is_older(version: str, other: str) -> bool:
    """Compare resourceVersions as integers (KEP-5504). If they are not integers, a version that differs is newer."""
    if version.isdecimal() and other.isdecimal():
        return int(version) < int(other)
    return version != other


_log = logging.getLogger("rackspan.reconcile")


@dataclass(frozen=True, slots=True)
class ResourceHandler:
    """The callbacks for objects of one kind.

    `put` stores an object, and raises SpecError if the object cannot be read. `changed` starts the work for an object
    that may have changed. `drop` forgets a deleted object and all state about it.
    """

    put: Callable[[Mapping[str, Any]], object]
    drop: Callable[[ObjectKey], None]
    changed: Callable[[ObjectKey], None] = lambda _: None


class Informer:
    """Passes watch events to a kind's `handler`. Calls `relisted` for each object that kopf has listed (again)."""

    def __init__(
        self, kind: str, handler: ResourceHandler, versions: ObjectVersions, relisted: Callable[[], None]
    ) -> None:
        self._kind = kind
        self._handler = handler
        self._versions = versions
        self._relisted = relisted

    def take(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """Handle one event from kopf: ADDED, MODIFIED or DELETED, or None for an object of a (re)list.

        A listed object may be older than the response to a later write, so an older version is ignored here. If etcd
        was restored from a backup, the sweep that follows a list finds the older version.
        """
        if event_type == "DELETED":
            self.gone(body)
            return
        self.seen(body)
        if event_type is None:
            self._relisted()

    def known(self, body: Mapping[str, Any], *, listed: bool = False) -> None:
        """Store an object without calling `changed`. Ignore it if a newer object with its name is known.

        If an older object with its name is known, that object was deleted. Its deletion event may come later or never.
        """
        made_anew = self._versions.knows_another(self._kind, body)
        if self._versions.record(self._kind, body, listed=listed):
            if made_anew:
                self._handler.drop(key_of(body))
            try:
                self._handler.put(body)
            except SpecError as error:
                _log.error("%s %s cannot be read: %s", self._kind, key_of(body), error)

    def seen(self, body: Mapping[str, Any], *, listed: bool = False) -> None:
        """Handle an object that was added or modified."""
        self.known(body, listed=listed)
        self._handler.changed(key_of(body))

    def gone(self, body: Mapping[str, Any]) -> None:
        """Handle an object that was deleted. Ignored if a newer object with the same name is known."""
        if self._versions.record_deletion(self._kind, body):
            self._handler.drop(key_of(body))


async def sweep(versions: ObjectVersions, kube: KubeApi, informers: Mapping[str, Informer]) -> frozenset[str]:
    """Handle changes that no watch has reported: objects that were deleted, added, changed or recreated.

    An object with a watch event since the list request is skipped, because the event is newer. Returns the namespaces
    that may not be read. Raises FailureError.
    """
    versions.deleted_uids.clear()
    denied: frozenset[str] = frozenset()
    for kind, informer in informers.items():
        known = versions.known(kind)
        listed = await kube.listed(kind)
        denied |= listed.denied
        for key in {**known, **listed.there}:
            if key.namespace in listed.denied:
                continue
            before, now = known.get(key), listed.there.get(key)
            if before is not None and (now is None or now.uid != before.uid):
                informer.gone({"metadata": {"namespace": key.namespace, "name": key.name, "uid": before.uid}})
                before = None
            if now == before or versions.latest(kind, key) != before:
                continue
            body = await kube.find(kind, key)
            if body is None or body["metadata"]["uid"] in versions.deleted_uids:
                continue
            if versions.latest(kind, key) == before:
                informer.seen(body, listed=True)
    return denied
