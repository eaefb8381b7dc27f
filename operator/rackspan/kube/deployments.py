"""Scaling of the operator's own Deployment, for uninstalling."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rackspan.kube.paths import DEPLOYMENTS
from rackspan.kube.rest import NotFoundError

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
    from rackspan.kube.rest import Rest

_PAUSE_SECONDS = 1.0


async def scale_to_zero(rest: Rest, key: ObjectKey) -> None:
    """Scale the Deployment to zero and wait until it has no Pods. Do nothing if the Deployment does not exist.

    Raises FailureError if the API server refuses the request or is unreachable.
    """
    path = DEPLOYMENTS.object(key, "scale")
    try:
        found = await rest.merge_patch("patch_scale", path, {"spec": {"replicas": 0}})
        while found.get("status", {}).get("replicas", 0):
            await asyncio.sleep(_PAUSE_SECONDS)
            found = await rest.get("get_scale", path)
    except NotFoundError:
        return
