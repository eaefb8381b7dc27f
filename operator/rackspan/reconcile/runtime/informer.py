"""From a kind's watch events to its handler: each version of an object once, in whatever order events are received.

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
    """The known objects, by kind and name. Not thread-safe: for one event loop."""

    def __init__(self) -> None:
        self._known: defaultdict[str, dict[ObjectKey, ObjectVersion]] = defaultdict(dict)
        self.deleted_uids: set[str] = set()
        """Uids deleted since the last `sweep` began: what it reads of them is outdated."""

    def record(self, kind: str, body: Mapping[str, Any], *, listed: bool = False) -> bool:
        """Record a body; whether it is new, and so has to be handled.

        `listed` says that it was read just now, while nothing else was learnt of it. An older version of the known
        object counts then, too: etcd may have been restored from a backup. A body with another uid counts only where
        it is newer, since that object may have been deleted after it was read.
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
        """Record the response to a write; whether it is new, and the object was not deleted meanwhile."""
        known = self._known[kind].get(key_of(body))
        return known is not None and known.uid == version_of(body).uid and self.record(kind, body)

    def record_deletion(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Record a deletion; whether it is the known object's. An object that was recreated under its name stays."""
        key, uid = key_of(body), version_of(body).uid
        self.deleted_uids.add(uid)
        known = self._known[kind].get(key)
        if known is None or known.uid != uid:
            return False
        del self._known[kind][key]
        return True

    def knows_another(self, kind: str, body: Mapping[str, Any]) -> bool:
        """Whether another object of this one's name is known."""
        known = self._known[kind].get(key_of(body))
        return known is not None and known.uid != version_of(body).uid

    def latest(self, kind: str, key: ObjectKey) -> ObjectVersion | None:
        """The known object of this name."""
        return self._known[kind].get(key)

    def known(self, kind: str) -> Mapping[ObjectKey, ObjectVersion]:
        """The objects that are known now."""
        return dict(self._known[kind])


def key_of(body: Mapping[str, Any]) -> ObjectKey:
    """The object's name and namespace; the namespace of a cluster-scoped object is empty."""
    metadata = body["metadata"]
    return ObjectKey(metadata.get("namespace") or "", metadata["name"])


def version_of(body: Mapping[str, Any]) -> ObjectVersion:
    """The object's uid and resourceVersion."""
    metadata = body["metadata"]
    return ObjectVersion(str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or ""))


def _is_older(version: str, other: str) -> bool:
    """Compare resourceVersions as integers (KEP-5504); of any other form, one that differs counts as newer."""
    if version.isdecimal() and other.isdecimal():
        return int(version) < int(other)
    return version != other


_log = logging.getLogger("rackspan.reconcile")


@dataclass(frozen=True, slots=True)
class ResourceHandler:
    """What is done with the objects of one kind.

    `put` remembers one, and raises SpecError where it cannot be read; `changed` starts what has to be done where one
    may have changed; `drop` forgets one that was deleted, and what was done for it.
    """

    put: Callable[[Mapping[str, Any]], object]
    drop: Callable[[ObjectKey], None]
    changed: Callable[[ObjectKey], None] = lambda _: None


class Informer:
    """The way from a watch to a kind's `handler`. `relisted` is called where the API server listed the kind again."""

    def __init__(
        self, kind: str, handler: ResourceHandler, versions: ObjectVersions, relisted: Callable[[], None]
    ) -> None:
        self._kind = kind
        self._handler = handler
        self._versions = versions
        self._relisted = relisted

    def take(self, event_type: str | None, body: Mapping[str, Any]) -> None:
        """One event as kopf gives it: ADDED, MODIFIED or DELETED, and None for an object of a (re)list.

        What was listed may be older than the answer to a write since. Where a backup was restored, the sweep that
        follows a list learns of it.
        """
        if event_type == "DELETED":
            self.gone(body)
            return
        self.seen(body)
        if event_type is None:
            self._relisted()

    def known(self, body: Mapping[str, Any], *, listed: bool = False) -> None:
        """Remember an object, without `changed`: ignored where a newer one of the name is known.

        Another one of its name is gone then, be it that nobody reported that or that it is reported later.
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
        """An object was added or modified."""
        self.known(body, listed=listed)
        self._handler.changed(key_of(body))

    def gone(self, body: Mapping[str, Any]) -> None:
        """An object was deleted. Ignored where a newer one of the same name is known."""
        if self._versions.record_deletion(self._kind, body):
            self._handler.drop(key_of(body))


async def sweep(versions: ObjectVersions, kube: KubeApi, informers: Mapping[str, Informer]) -> frozenset[str]:
    """Make up for what no watch has told: objects that are gone, were added or changed, or were made anew.

    Objects that a watch tells of since the list was asked for are left to it: it knows better. Returns the namespaces
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
