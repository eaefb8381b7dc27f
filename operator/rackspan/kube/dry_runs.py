"""Checks whether the API server would accept KafkaTopics, without storing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rackspan.api.reasons import Reason
from rackspan.kube.paths import TOPICS
from rackspan.kube.rest import ConflictError, NotFoundError, connected
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rackspan.api.meta import ObjectKey

_CLIENT: Final = "rackspan-cli"
_DRY: Final = {"dryRun": "All", "fieldValidation": "Strict"}


async def refused_by_server(
    bodies: Mapping[ObjectKey, Mapping[str, Any]], kubeconfig: Path | None
) -> Mapping[ObjectKey, Failure]:
    """Return the failures of the objects that the API server rejects, each tried as a dry run of a server-side apply.

    A dry run includes admission: policies, webhooks and quotas. Raises FailureError if the API server does not respond.
    """
    found: dict[ObjectKey, Failure] = {}
    async with connected(kubeconfig, _CLIENT) as rest:
        for key, body in bodies.items():
            try:
                await rest.apply("apply_topic", TOPICS.object(key), body, manager=_CLIENT, query=_DRY)
            except FailureError as error:
                if error.failure.remedy is Remedy.RETRY:
                    raise
                found[key] = error.failure
            except (ConflictError, NotFoundError) as error:
                found[key] = Failure(Reason.API_SERVER_REFUSED, str(error), Remedy.SPEC)
    return found
