"""Scaling of the operator's own Deployment, for uninstalling."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from rackspan.kube.paths import DEPLOYMENTS, PODS, with_query
from rackspan.kube.rest import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.kube.rest import Rest

_PAUSE_SECONDS = 1.0
_NOT_ENDED: Final = "status.phase!=Failed,status.phase!=Succeeded"
"""Selects Pods. An evicted Pod has ended, and stays until it is collected."""


async def scale_to_zero(rest: Rest, key: ObjectKey) -> None:
    """Scale the Deployment to zero and wait until its Pods have ended. Do nothing if the Deployment does not exist.

    Raises FailureError if the API server refuses a request or is unreachable.
    """
    path = DEPLOYMENTS.object(key, "scale")
    try:
        found = await rest.merge_patch("patch_scale", path, {"spec": {"replicas": 0}})
        while await _has_pods(rest, key, found["status"]):
            await asyncio.sleep(_PAUSE_SECONDS)
            found = await rest.get("get_scale", path)
    except NotFoundError:
        return


async def _has_pods(rest: Rest, key: ObjectKey, status: Mapping[str, Any]) -> bool:
    """Return whether Pods run. `replicas` does not count terminating Pods, which run until their grace period ends."""
    if status.get("replicas"):
        return True
    query = {"labelSelector": status["selector"], "fieldSelector": _NOT_ENDED, "limit": 1}
    return bool((await rest.get("list_pods", with_query(PODS.in_namespace(key.namespace), query)))["items"])
