"""The locations of brokers: from nodes, pods and Kafka to the rack tree, with drift and missing racks. Pure.

A rack id comes from the node's labels (`rackSource: Nodes`), one label per level, or from Kafka (`rackSource: Broker`).
Kafka reports the `broker.rack` that a broker was started with. If the node's labels differ, the labels are used, and
the difference is drift: only a restart of the broker changes `broker.rack`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, ref

from rackspan.api.labels import BROKER_PODS_FOR
from rackspan.api.racktopology import BrokerIdFrom, MissingRackPolicy, RackSource
from rackspan.api.reasons import Reason
from rackspan.core.rack_path import RackPath, RackPathError, format_rack, parse_rack, rack_or_none
from rackspan.core.scanning import BrokerLocations
from rackspan.core.text import few, plural
from rackspan.core.topology import Broker, BrokerLocation, RackTree
from rackspan.reconcile.cache import is_number
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from rackspan.api.racktopology import BrokerIdSpec, BrokerStatus, RackTopology, RackTopologySpec
    from rackspan.reconcile.cache import BrokerPod, Cache
    from rackspan.reconcile.ports import BrokerDescription

_MAX_BROKER_ID: Final = 2**31 - 1
"""Kafka's broker ids are of type int32."""
_TREES: WeakKeyDictionary[RackTree, ref[RackTree]] = WeakKeyDictionary()
"""The trees in use. Equal views have one tree: each observation makes a view, which is compared with each plan."""


@dataclass(frozen=True, slots=True)
class LocatedBroker:
    """One broker. `rack` is the rack for placements, `reported_rack` the `broker.rack` in Kafka."""

    id: int
    host: str | None
    pods: tuple[str, ...]
    node: str | None
    rack: RackPath | None
    reported_rack: str | None
    online: bool
    draining: bool
    """Whether the topology's spec drains the broker."""
    cordoned: bool = False
    """Whether all log directories of the broker are cordoned in Kafka (KIP-1066)."""
    drift: bool = False
    """Whether Kafka reports another rack than `rack`."""
    reported_path: RackPath | None = None
    """`reported_rack` as a path of the topology, with aliases resolved, or None if it is not a valid path."""
    problem: Failure | None = None
    """Why the rack is not known."""


@dataclass(frozen=True)
class RackView:
    """All brokers of one topology, by id, and their rack tree."""

    levels: tuple[str, ...]
    rows: tuple[LocatedBroker, ...]
    ignore_missing: bool
    ignored_pods: tuple[str, ...] = field(default=(), compare=False)
    """The pods whose broker id is out of range."""
    rack_hash: str | None = None
    """The `rack_hash` of the spec that the racks are based on."""

    @cached_property
    def tree(self) -> RackTree:
        """The rack tree. With `missingRackPolicy: Ignore` and a missing rack, no broker has a rack in it (KIP-36)."""
        tree = RackTree(
            self.levels,
            tuple(
                Broker(row.id, row.rack, eligible=not row.draining, online=row.online, cordoned=row.cordoned)
                for row in self.rows
            ),
        )
        tree = tree.without_racks() if self.missing and self.ignore_missing else tree
        found = _TREES.get(tree)
        if found is not None and (known := found()) is not None:
            return known
        _TREES[tree] = ref(tree)
        return tree

    @cached_property
    def as_reported(self) -> RackView:
        """The same brokers in the racks that Kafka reports. A reported rack that is not valid is unknown."""
        rows = tuple(replace(row, rack=row.reported_path) if row.drift else row for row in self.rows)
        return RackView(self.levels, rows, self.ignore_missing)

    @cached_property
    def missing(self) -> tuple[LocatedBroker, ...]:
        """The brokers whose rack is not known."""
        return tuple(row for row in self.rows if row.rack is None)

    @cached_property
    def known_racks(self) -> Mapping[int, RackPath]:
        """The racks by broker id, without the missing ones."""
        return {row.id: row.rack for row in self.rows if row.rack is not None}

    @cached_property
    def drifted(self) -> tuple[LocatedBroker, ...]:
        """The brokers with drift."""
        return tuple(row for row in self.rows if row.drift)

    def domain_counts(self) -> tuple[tuple[str, int], ...]:
        """Return each level's name and number of domains, from the top."""
        paths = [row.rack for row in self.rows if row.rack is not None]
        return tuple(
            (name, len({path[: depth + 1] for path in paths if len(path) > depth}))
            for depth, name in enumerate(self.levels)
        )


def rack_view(
    cache: Cache,
    topology: RackTopology,
    brokers: Iterable[BrokerDescription],
    last_racks: Mapping[int, RackPath | None],
    holders: Collection[int],
    cordoned: Collection[int],
) -> RackView:
    """Return all brokers that Kafka lists, that a pod claims to be, or that were seen before, each with its rack.

    `brokers` are the brokers that Kafka lists, which are online. `last_racks` has the racks of brokers that may be
    offline or whose pod has no node now, None if they are not known. `cordoned` are the ids of brokers that take no new
    replicas.

    If the brokers' pods are in another namespace than the topology, pods are used only if the labels of that namespace
    consent, and only pods of brokers that are online, in `last_racks` or in `holders`: the ids of brokers that hold
    replicas.
    """
    spec = topology.spec
    seen = {broker.id: broker for broker in brokers}
    from_nodes = spec.rack_source == RackSource.NODES
    refused = not_shared(topology, cache.namespaces.get(topology.broker_namespace, {})) if from_nodes else None
    pods = cache.pods_in(topology.broker_namespace) if from_nodes and refused is None else ()
    pods_by_id, ignored_pods = _pods_by_broker(topology, pods)
    if topology.broker_namespace != topology.meta.namespace:
        pods_by_id = {
            id_: found for id_, found in pods_by_id.items() if id_ in seen or id_ in last_racks or id_ in holders
        }
        ignored_pods = []
    rows, drains = [], spec.drains
    for broker_id in sorted(seen.keys() | pods_by_id.keys() | last_racks.keys()):
        broker = seen.get(broker_id)
        claimants = pods_by_id.get(broker_id, [])
        pod = claimants[0] if len(claimants) == 1 else None
        node = pod.node if pod else None
        reported = _rack_from_broker(spec, broker)
        found = (refused or _rack_from_node(spec, claimants, cache.nodes)) if from_nodes else reported
        if isinstance(found, Failure) and broker is None:
            found = last_racks.get(broker_id) or found
        rack = None if isinstance(found, Failure) else found
        rows.append(
            LocatedBroker(
                id=broker_id,
                host=broker.host if broker else None,
                pods=tuple(pod.name for pod in claimants),
                node=node,
                rack=rack,
                reported_rack=broker.rack if broker else None,
                online=broker is not None,
                draining=drains(broker_id, rack),
                cordoned=broker_id in cordoned,
                drift=broker is not None and rack is not None and rack != reported,
                reported_path=None if isinstance(reported, Failure) else reported,
                problem=found if isinstance(found, Failure) else None,
            )
        )
    ignore = spec.missing_rack_policy == MissingRackPolicy.IGNORE and refused is None
    return RackView(spec.level_names, tuple(rows), ignore, tuple(sorted(ignored_pods)), spec.rack_hash)


def with_racks(spec: RackTopologySpec, view: RackView, racks: Mapping[int, RackPath]) -> RackView:
    """Return `view` with other racks for some brokers, by id."""
    drains = spec.drains
    rows = tuple(
        replace(row, rack=racks[row.id], draining=drains(row.id, racks[row.id])) if row.id in racks else row
        for row in view.rows
    )
    return replace(view, rows=rows)


def not_shared(topology: RackTopology, consent: Mapping[str, str]) -> Failure | None:
    """Return why a topology may not look for its brokers among the pods of another namespace, or None if it may.

    Otherwise any user who may create a RackTopology could read pods and nodes without permission.
    """
    own, where = topology.meta.namespace, topology.broker_namespace
    if where == own or consent.get(BROKER_PODS_FOR) == own:
        return None
    return Failure(
        Reason.BROKER_PODS_NOT_SHARED,
        f"namespace {where} does not let topologies of namespace {own} look at its pods: label it "
        f"{BROKER_PODS_FOR}={own}",
        Remedy.SPEC,
    )


def last_seen(
    known_racks: Mapping[int, RackPath | None], topology: RackTopology, holders: Collection[int]
) -> dict[int, RackPath | None]:
    """Return the last known racks of brokers with replicas: from this process (`known_racks`), else from the status.

    A broker without replicas is left out: once it has disappeared, it counts as decommissioned.
    """
    return {broker: path for broker, path in (status_racks(topology) | dict(known_racks)).items() if broker in holders}


def status_racks(topology: RackTopology) -> dict[int, RackPath | None]:
    """Return the racks in the topology's status, by broker id.

    A rack from an earlier spec is None. The broker then counts as one with an unknown rack, and not as a removed one.
    """
    deepest = len(topology.spec.levels) if topology.has_current_racks else 0
    return {
        broker.id: path if len(path) <= deepest else None
        for broker in topology.status.brokers
        if (path := rack_or_none(broker.rack)) is not None
    }


def locations_of_topology(topology: RackTopology) -> BrokerLocations:
    """Return the brokers and racks in the topology's status. Raises RackPathError."""
    spec, drains = topology.spec, topology.spec.drains
    return BrokerLocations(
        spec.level_names,
        tuple(_location(broker, drains) for broker in topology.status.brokers),
        ignore_missing=spec.missing_rack_policy == MissingRackPolicy.IGNORE,
    )


def _location(broker: BrokerStatus, drains: Callable[[int, RackPath | None], bool]) -> BrokerLocation:
    rack = None if broker.rack is None else parse_rack(broker.rack)
    # The status has the rack with its alias resolved, so a broker without drift reports that rack.
    reported = format_rack(rack) if rack is not None and broker.drift is False else broker.reported_rack
    return BrokerLocation(
        broker.id,
        reported,
        rack,
        online=broker.online is not False,
        draining=drains(broker.id, rack),
        cordoned=broker.cordoned is True,
    )


def _pods_by_broker(
    topology: RackTopology, pods: Iterable[BrokerPod]
) -> tuple[Mapping[int, list[BrokerPod]], Collection[str]]:
    """Return the pods by broker id, and the names of pods whose id is out of range."""
    ignored_pods: list[str] = []
    found: defaultdict[int, list[BrokerPod]] = defaultdict(list)
    source = topology.spec.brokers
    if source is None:
        return found, ignored_pods
    for pod in pods:
        broker_id = broker_id_of(source.broker_id, pod) if is_broker_pod(topology, pod) else None
        if broker_id is None:
            continue
        if 0 <= broker_id <= _MAX_BROKER_ID:
            found[broker_id].append(pod)
        else:
            ignored_pods.append(pod.name)
    for claimants in found.values():
        claimants.sort(key=lambda pod: pod.name)
    return found, ignored_pods


def is_broker_pod(topology: RackTopology, pod: BrokerPod) -> bool:
    """Return whether the topology's `spec.brokers` selects the pod, by its namespace and its labels."""
    source = topology.spec.brokers
    return source is not None and pod.namespace == topology.broker_namespace and source.pod_selector.matches(pod.labels)


def broker_id_of(source: BrokerIdSpec, pod: BrokerPod) -> int | None:
    """Return the broker id that a pod claims, possibly out of range, or None if the pod has none.

    The text is not trusted, because it may have more digits than Python converts to an int.
    """
    match source.from_:
        case BrokerIdFrom.LABEL:
            text = pod.labels.get(source.key or "")
        case BrokerIdFrom.ANNOTATION:
            text = pod.annotations.get(source.key or "")
        case BrokerIdFrom.NAME_SUFFIX:
            text = pod.name.rpartition("-")[2]
    if text is None or not is_number(text):
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) + source.offset if len(digits) <= len(str(_MAX_BROKER_ID)) else _MAX_BROKER_ID + 1


def _rack_from_node(
    spec: RackTopologySpec, claimants: list[BrokerPod], nodes: Mapping[str, Mapping[str, str]]
) -> RackPath | Failure:
    if not claimants:
        return _missing("no pod of spec.brokers.podSelector has this broker id")
    if len(claimants) > 1:
        return _missing(f"pods {few([pod.name for pod in claimants])} all claim this broker id")
    node = claimants[0].node
    if node is None:
        return _missing(f"pod {claimants[0].name} is not bound to a node")
    if node not in nodes:
        return _missing(f"node {node} is not known")
    return path_from_labels(spec, node, nodes[node])


def path_from_labels(spec: RackTopologySpec, node: str, labels: Mapping[str, str]) -> RackPath | Failure:
    """Return a node's rack path, or why it has none. Labels of the lowest levels may be missing, but not in between."""
    steps = [(level.node_label or "", labels.get(level.node_label or "", "")) for level in spec.levels]
    path = tuple(value for _, value in steps)
    while path and not path[-1]:
        path = path[:-1]
    gap = next((label for label, value in steps[: max(1, len(path))] if not value), None)
    if gap is not None:
        return _missing(f"node {node} has no label {gap}")
    alias = spec.rack_aliases.get(format_rack(path))
    return _path(spec, alias, f"the alias of {format_rack(path)}") if alias else path


def _rack_from_broker(spec: RackTopologySpec, broker: BrokerDescription | None) -> RackPath | Failure:
    if broker is None or not broker.rack:
        return _missing("Kafka reports no broker.rack")
    return _path(spec, spec.rack_aliases.get(broker.rack, broker.rack), "broker.rack")


def _path(spec: RackTopologySpec, text: str, what: str) -> RackPath | Failure:
    try:
        path = parse_rack(text)
    except RackPathError as error:
        return _invalid(f"{what} {text!r} is not a rack path: {error}")
    if len(path) > len(spec.levels):
        return _invalid(f"{what} {text!r} has {len(path)} steps, the topology has {plural(len(spec.levels), 'level')}")
    return path


def _missing(message: str) -> Failure:
    return Failure(Reason.MISSING_RACKS, message, Remedy.SPEC)


def _invalid(message: str) -> Failure:
    return Failure(Reason.INVALID_RACK, message, Remedy.SPEC)
