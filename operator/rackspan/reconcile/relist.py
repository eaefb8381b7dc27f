"""Compares the cache with the API server's objects, in case a watch silently missed events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rackspan.reconcile.ports import KubeApi
    from rackspan.reconcile.runtime.object_versions import ObjectVersions


class Route(NamedTuple):
    """The callbacks for objects of one kind; each gets the object's body."""

    updated: Callable[[Mapping[str, Any]], None]
    deleted: Callable[[Mapping[str, Any]], None]


async def sweep(versions: ObjectVersions, kube: KubeApi, routes: Mapping[str, Route]) -> None:
    """Report objects that no longer exist as deleted, and those that were recreated under their names as updated.

    Only objects that were known before the list request are compared, because objects may be created and deleted while
    it is under way. Raises FailureError.
    """
    versions.deleted_uids.clear()
    for kind, route in routes.items():
        known = versions.uids(kind)
        existing = await kube.uids(kind)
        for key, uid in known.items():
            if existing.get(key) == uid:
                continue
            route.deleted({"metadata": {"namespace": key.namespace, "name": key.name, "uid": uid}})
            if key in existing and not versions.knows(kind, key):
                body = await kube.find(kind, key)
                if body is not None and body["metadata"]["uid"] not in versions.deleted_uids:
                    route.updated(body)
