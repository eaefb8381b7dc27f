"""`reconcile.racks.rack_ports.BrokerPods` over the Kubernetes API: brokers' pods, one at a time and by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rackspan.api.labels import RACK
from rackspan.kube.paths import PODS
from rackspan.kube.rest import BusyError, ConflictError, NotFoundError, Rest
from rackspan.reconcile.racks.rack_ports import Eviction, PodFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.meta import ObjectKey


_MANAGER = "rackspan"


class KubeBrokerPods:
    """Reads, annotates and evicts pods, each by the name that a RackTopology's broker has.

    Annotations are written through `pods/status`: who may patch pods could change their images.
    """

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def get(self, key: ObjectKey) -> PodFacts | None:
        """One pod; None where there is none of that name."""
        try:
            return _facts(await self._rest.get("get_pod", PODS.object(key)))
        except NotFoundError:
            return None

    async def annotate(self, key: ObjectKey, rack: str | None) -> None:
        """Write a rack on one pod, for people to see, or take it off. Succeeds where there is no such pod."""
        path = PODS.object(key, "status")
        try:
            if rack is None:  # also where somebody else wrote the same
                patch = {"metadata": {"annotations": {RACK: None}}}
                await self._rest.merge_patch("annotate_pod", path, patch)
            else:
                metadata = {"name": key.name, "namespace": key.namespace, "annotations": {RACK: rack}}
                body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
                await self._rest.apply("annotate_pod", path, body, manager=_MANAGER)
        except NotFoundError:
            return

    async def evict(self, key: ObjectKey, uid: str, *, rehearse: bool) -> Eviction:
        """Evict this very pod (policy/v1), or with `rehearse` only ask whether that were accepted (dryRun)."""
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if rehearse:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "deleteOptions": options,
        }
        try:
            await self._rest.post_once("evict_pod", PODS.object(key, "eviction"), body)
        except BusyError:
            return Eviction.REFUSED
        except (ConflictError, NotFoundError):
            return Eviction.GONE
        return Eviction.ACCEPTED


def _facts(pod: Mapping[str, Any]) -> PodFacts:
    metadata = pod["metadata"]
    conditions = (pod.get("status") or {}).get("conditions") or ()
    owners = metadata.get("ownerReferences") or ()
    return PodFacts(
        uid=metadata["uid"],
        node=(pod.get("spec") or {}).get("nodeName"),
        deleting=metadata.get("deletionTimestamp") is not None,
        ready=any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions),
        has_controller=any(owner.get("controller") for owner in owners),
    )
