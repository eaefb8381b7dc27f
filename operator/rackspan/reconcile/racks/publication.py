"""Which racks of which nodes are published for a RackTopology, and where. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rackspan.api.labels import API_VERSION, PUBLISH_RACKS, RACK_FILE, RACK_FILE_OF, TOPOLOGY_UID
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import KIND, RackSource
from rackspan.api.reasons import Reason
from rackspan.core.rack_file import RackFileError, rack_file
from rackspan.core.rack_path import format_rack
from rackspan.reconcile.cluster.racks import not_shared, path_from_labels
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.ports import JsonObject

EVERYWHERE: Final = "*"
FILE_KEY: Final = "nodes"
"""The ConfigMap's key, and so the name of the file that it is mounted as."""
_TITLE = "The rack id of every node, kept by Rackspan: changes by hand are put back."


@dataclass(frozen=True, slots=True)
class NamespaceSet:
    """The namespaces in which the operator may do one thing; `*` is for all."""

    names: tuple[str, ...] = ()

    def __contains__(self, namespace: str) -> bool:
        return EVERYWHERE in self.names or namespace in self.names

    def __bool__(self) -> bool:
        return bool(self.names)


@dataclass(frozen=True, slots=True)
class RackText:
    """The file for one choice of levels: its text, of how many nodes, and of how many the labels give no rack."""

    text: str
    nodes: int
    unknown: int
    example: str | None = None
    """Why one of them has none."""


def rack_text(topology: RackTopology, nodes: Mapping[str, Mapping[str, str]]) -> RackText | Failure:
    """The rack id of every node that has one; a Failure where there are too many nodes for a ConfigMap."""
    paths = {node: path_from_labels(topology.spec, node, labels) for node, labels in nodes.items()}
    racks = {node: format_rack(path) for node, path in paths.items() if not isinstance(path, Failure)}
    failures = sorted(path.message for path in paths.values() if isinstance(path, Failure))
    try:
        text = rack_file(racks, _TITLE)
    except RackFileError as error:
        return Failure(Reason.TOO_LARGE, str(error), Remedy.SPEC)
    return RackText(text, len(racks), len(failures), failures[0] if failures else None)


def target_namespaces(
    topology: RackTopology, namespaces: Mapping[str, Mapping[str, str]], allowed: NamespaceSet
) -> tuple[str, ...]:
    """Where a topology's racks are published, by name: with its brokers' pods, and where a label asks for them.

    The label names a topology of the namespace itself, or `namespace.name`, so that nobody else's topology of that name
    gets in. Without racks from nodes, nowhere.
    """
    if topology.spec.rack_source is not RackSource.NODES:
        return ()
    key = topology.key
    found = {name for name, labels in namespaces.items() if _asks_for(labels.get(PUBLISH_RACKS), name, key)}
    where = topology.broker_namespace
    if where in namespaces and not_shared(topology, namespaces[where]) is None:
        found.add(where)
    return tuple(sorted(name for name in found if name in allowed))


def _asks_for(label: str | None, namespace: str, topology: ObjectKey) -> bool:
    if not label:
        return False
    own = topology.name if namespace == topology.namespace else None
    return label in (own, f"{topology.namespace}.{topology.name}")


def file_key(topology: ObjectKey, namespace: str) -> ObjectKey:
    """The ConfigMap's key."""
    return ObjectKey(namespace, f"{topology.name}-racks")


def config_map(topology: RackTopology, namespace: str, text: str) -> JsonObject:
    """The ConfigMap. Kubernetes deletes it with its RackTopology where both are in one namespace."""
    key = file_key(topology.key, namespace)
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": topology.key.name, "uid": topology.meta.uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": key.name,
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "rackspan",
                RACK_FILE: "true",
                TOPOLOGY_UID: topology.meta.uid,
            },
            "annotations": {RACK_FILE_OF: str(topology.key)},
            "ownerReferences": [owner] if namespace == topology.key.namespace else [],
        },
        "data": {FILE_KEY: text},
    }
