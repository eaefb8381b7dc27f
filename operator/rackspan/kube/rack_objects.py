"""The ports for racks over the Kubernetes API: the ConfigMaps that publish racks, and the brokers' pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rackspan.api.labels import RACK, RACK_FILE, RACK_FILE_OF, TOPOLOGY_UID
from rackspan.api.meta import ObjectKey
from rackspan.kube.kube_objects import METADATA_LIST, RACK_FILE_PAGE
from rackspan.kube.paths import CONFIG_MAPS, PODS
from rackspan.kube.rest import BusyError, ConflictError, NotFoundError, Rest
from rackspan.reconcile.failures import FailureError, Remedy
from rackspan.reconcile.ports import Eviction, PodFacts, RackFileList, RackFileMeta
from rackspan.reconcile.runtime.informer import key_of
from rackspan.reconcile.runtime.namespaces import EVERYWHERE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import JsonObject
    from rackspan.reconcile.runtime.namespaces import NamespaceSet

_MANAGER = "rackspan"


class KubeBrokerPods:
    """Reads, annotates and evicts the pods of a RackTopology's brokers, each by its name.

    Annotations are written through `pods/status`, because the right to patch pods would allow to change their images.
    """

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    async def get(self, key: ObjectKey) -> PodFacts | None:
        """Return the pod, or None if it does not exist."""
        try:
            return _facts(await self._rest.get("get_pod", PODS.object(key)))
        except NotFoundError:
            return None

    async def annotate(self, key: ObjectKey, rack: str | None) -> None:
        """Set the rack annotation of a pod, for people to see, or remove it. Succeeds if the pod does not exist."""
        path = PODS.object(key, "status")
        try:
            if rack is None:  # not by apply, which would keep a value that another manager owns, too
                patch = {"metadata": {"annotations": {RACK: None}}}
                await self._rest.merge_patch("annotate_pod", path, patch)
            else:
                metadata = {"name": key.name, "namespace": key.namespace, "annotations": {RACK: rack}}
                body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
                await self._rest.apply("annotate_pod", path, body, manager=_MANAGER)
        except NotFoundError:
            return

    async def evict(self, key: ObjectKey, uid: str, *, rehearse: bool) -> Eviction:
        """Evict this pod (policy/v1, by uid), or with `rehearse` only check whether it would be accepted (dryRun)."""
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


class KubeRackFiles:
    """The ConfigMaps with our label in the namespaces where racks may be published. Others are never read."""

    def __init__(self, rest: Rest, namespaces: NamespaceSet) -> None:
        self._rest = rest
        self._namespaces = () if EVERYWHERE in namespaces.names else namespaces.names

    async def published(self) -> RackFileList:
        """Return the metadata of all published ConfigMaps. Raises FailureError if all lists fail and may be retried."""
        found: dict[ObjectKey, RackFileMeta] = {}
        failed: dict[str, Failure] = {}
        query, asked = {"labelSelector": f"{RACK_FILE}=true"}, self._namespaces or (EVERYWHERE,)
        for namespace, path in zip(asked, CONFIG_MAPS.collections(self._namespaces), strict=True):
            try:
                items = await self._rest.list_all("list_racks", path, RACK_FILE_PAGE, query=query, accept=METADATA_LIST)
            except FailureError as error:  # for example, the namespace was deleted, and its RoleBinding too
                failed[namespace] = error.failure
            else:
                found.update((key_of(item), _meta(item)) for item in items)
        if len(failed) == len(asked) and all(failure.remedy is Remedy.RETRY for failure in failed.values()):
            raise FailureError(failed[asked[0]])
        return RackFileList(found, failed)

    async def create(self, body: JsonObject) -> RackFileMeta | None:
        """Create a ConfigMap. Return its metadata, or None if the name is already in use."""
        path = CONFIG_MAPS.in_namespace(body["metadata"]["namespace"])
        written = await self._rest.create("create_racks", path, body)
        return None if written is None else _meta(written)

    async def replace(self, known: RackFileMeta, body: JsonObject) -> RackFileMeta | None:
        """Write this content to the ConfigMap. Return None if it changed since `known` or is deleted."""
        metadata = {**body["metadata"], "uid": known.uid, "resourceVersion": known.version}
        try:
            path = CONFIG_MAPS.object(key_of(body))
            return _meta(await self._rest.merge_patch("patch_racks", path, {**body, "metadata": metadata}))
        except (ConflictError, NotFoundError):
            return None

    async def delete(self, key: ObjectKey, known: RackFileMeta) -> None:
        """Delete this object (by uid). Succeeds if the object is already deleted."""
        await self._rest.delete("delete_racks", CONFIG_MAPS.object(key), known.uid)


def _meta(item: Mapping[str, Any]) -> RackFileMeta:
    metadata = item["metadata"]
    namespace, slash, name = (metadata.get("annotations") or {}).get(RACK_FILE_OF, "").partition("/")
    return RackFileMeta(
        metadata["uid"],
        metadata["resourceVersion"],
        ObjectKey(namespace, name) if slash else None,
        (metadata.get("labels") or {}).get(TOPOLOGY_UID),
    )
