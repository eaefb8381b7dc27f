"""Reads what a topology's plan depends on: its objects, and the nodes that its brokers' pods run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.kube.kube_objects import HOST_PAGE, METADATA_LIST, POD_PAGE
from rackspan.kube.paths import NODES, PODS
from rackspan.kube.rest import NotFoundError, connected
from rackspan.kube.scan_inputs import ScanInputs, read_scan_inputs_with
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from pathlib import Path

    from rackspan.api.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class TopologyInputs:
    """A topology with its topics and credentials, and the nodes, pods and namespaces in a cache like the operator's."""

    scan: ScanInputs
    cache: Cache


async def read_plan_inputs(key: ObjectKey, kubeconfig: Path | None = None) -> TopologyInputs:
    """Read them over a connection of its own: the kubeconfig's, else the pod's service account.

    Raises FailureError: no such topology, the API server is away, a Secret is missing, or rights are.
    """
    async with connected(kubeconfig) as rest:
        try:
            scan = await read_scan_inputs_with(rest, key)
            cache = Cache()
            async for node in rest.each("list_nodes", NODES.collection(), HOST_PAGE, accept=METADATA_LIST):
                cache.put_node(node)
            cache.namespaces.update(scan.namespaces)
            path = PODS.in_namespace(scan.topology.broker_namespace)
            async for pod in rest.each("list_pods", path, POD_PAGE):
                cache.put_pod(pod)
        except NotFoundError as error:
            raise FailureError(
                Failure(Reason.NOT_AUTHORIZED, f"the API server does not have {error}", Remedy.ACCESS)
            ) from error
    return TopologyInputs(scan, cache)
