"""Reads what the operator decides a topology's plan by: its objects, and where the pods of its brokers run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.kube.authentication import config
from rackspan.kube.paths import NAMESPACES, NODES, PODS
from rackspan.kube.rest import NotFoundError, Rest, connect
from rackspan.kube.scan_inputs import TopologySeen, read_over
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from pathlib import Path

    from rackspan.api.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class Picture:
    """A topology with its topics and connection, and the nodes and pods as the operator keeps them."""

    seen: TopologySeen
    cache: Cache


async def read_picture(key: ObjectKey, kubeconfig: Path | None = None) -> Picture:
    """Read over a connection of its own: the kubeconfig's, else the pod's service account.

    Raises FailureError: no such topology, the API server is away, a Secret is missing, or rights are.
    """
    try:
        rest = Rest(await connect(kubeconfig))
    except config.ConfigException as error:
        raise FailureError(Failure(Reason.NOT_AUTHORIZED, f"no usable kubeconfig: {error}", Remedy.ACCESS)) from error
    try:
        seen = await read_over(rest, key)
        cache = Cache()
        for node in await rest.items("list_nodes", NODES.everywhere()):
            cache.put_node(node)
        for namespace in await rest.items("list_namespaces", NAMESPACES.everywhere()):
            cache.put_namespace(namespace)
        for pod in await rest.items("list_pods", PODS.within(seen.topology.broker_namespace)):
            cache.put_pod(pod)
    except NotFoundError as error:
        raise FailureError(Failure(Reason.NOT_AUTHORIZED, f"the API server lacks {error}", Remedy.ACCESS)) from error
    finally:
        await rest.close()
    return Picture(seen, cache)
