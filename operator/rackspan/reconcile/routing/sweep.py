"""Compares the cache with the API server's objects, in case a watch silently missed events."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.ports import KubeApi
    from rackspan.reconcile.routing.informer import Informer
    from rackspan.reconcile.runtime.informer import ObjectVersions


async def sweep(versions: ObjectVersions, kube: KubeApi, informers: Mapping[str, Informer]) -> None:
    """Report objects that no longer exist as deleted, and those that were recreated under their names as updated.

    Only objects that were known before the list request are compared, because objects may be created and deleted while
    it is under way. Raises FailureError.
    """
    versions.deleted_uids.clear()
    for kind, informer in informers.items():
        known = versions.uids(kind)
        existing = await kube.uids(kind)
        for key, uid in known.items():
            if existing.get(key) == uid:
                continue
            informer.gone({"metadata": {"namespace": key.namespace, "name": key.name, "uid": uid}})
            if key in existing and not versions.knows(kind, key):
                body = await kube.find(kind, key)
                if body is not None and body["metadata"]["uid"] not in versions.deleted_uids:
                    informer.seen(body)
