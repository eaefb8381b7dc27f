"""Compares what is known with what the API server has, in case a watch died or lost an event without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rackspan.reconcile.ports import Cluster
    from rackspan.reconcile.runtime.object_versions import ObjectVersions


class Route(NamedTuple):
    """Where news of the objects of one kind go."""

    seen: Callable[[Mapping[str, Any]], None]
    gone: Callable[[Mapping[str, Any]], None]


async def sweep(versions: ObjectVersions, kube: Cluster, routes: Mapping[str, Route]) -> None:
    """Forget objects that are no more, and learn those that took their names. Raises FailureError.

    Objects come and go while lists are on their way: what was not known before a list was asked for is left alone.
    """
    versions.deleted_uids.clear()
    for kind, route in routes.items():
        before = versions.uids(kind)
        there = await kube.uids(kind)
        for key, uid in before.items():
            if there.get(key) == uid:
                continue
            route.gone({"metadata": {"namespace": key.namespace, "name": key.name, "uid": uid}})
            if key in there and not versions.knows(kind, key):
                body = await kube.find(kind, key)
                if body is not None and body["metadata"]["uid"] not in versions.deleted_uids:
                    route.seen(body)
