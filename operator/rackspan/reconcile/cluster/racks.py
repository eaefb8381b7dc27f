"""Where brokers really run: nodes and broker pods → the rack tree, its drift and its gaps. Pure.

A rack id comes from the node's labels (`rackSource: Nodes`), one label per level, or from Kafka (`rackSource: Broker`).
What Kafka reports is only what a broker was told when it started, so where the two differ the node's truth decides and
the difference is drift: `broker.rack` can only be changed by restarting the broker.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rackspan.api.labels import BROKER_PODS_FOR
from rackspan.api.racktopology import BrokerIdFrom, MissingRackPolicy, RackSource
from rackspan.api.reasons import Reason
from rackspan.core.text import plural
from rackspan.core.topology import Broker, RackPath, RackPathError, RackTree, format_rack, parse_rack
from rackspan.reconcile.cache import is_number
from rackspan.reconcile.failures import Failure, Remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rackspan.api.racktopology import BrokerIdSpec, RackTopology, RackTopologySpec, RackTopologyStatus
    from rackspan.reconcile.cache import BrokerPod
    from rackspan.reconcile.ports import BrokerDescription

_MOST: Final = 2**31 - 1
"""The highest number that a broker can have."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker: `rack` is the truth that placements follow, `reported_rack` what Kafka was told."""

    id: int
    host: str | None
    pods: tuple[str, ...]
    node: str | None
    rack: RackPath | None
    reported_rack: str | None
    online: bool
    eligible: bool
    drift: bool = False
    """Whether Kafka reports another rack than the node's."""
    problem: Failure | None = None
    """Why the rack is not known."""

    @property
    def draining(self) -> bool:
        """Whether the topology says that it shall hold nothing."""
        return not self.eligible


@dataclass(frozen=True)
class RackView:
    """All brokers of one topology, by id, and the tree they form."""

    levels: tuple[str, ...]
    rows: tuple[BrokerRow, ...]
    ignore_missing: bool
    passed_over: tuple[str, ...] = field(default=(), compare=False)
    """Pods that claim a number which no broker can have."""

    @cached_property
    def tree(self) -> RackTree:
        """The rack tree. With `missingRackPolicy: Ignore` and a gap, as if no broker had a rack (KIP-36)."""
        tree = RackTree(
            self.levels,
            tuple(Broker(row.id, row.rack, eligible=row.eligible, online=row.online) for row in self.rows),
        )
        return tree.without_racks() if self.missing and self.ignore_missing else tree

    @property
    def missing(self) -> tuple[BrokerRow, ...]:
        """Brokers whose rack is not known."""
        return tuple(row for row in self.rows if row.rack is None)

    @property
    def places(self) -> Mapping[int, RackPath]:
        """The racks that are known, by broker."""
        return {row.id: row.rack for row in self.rows if row.rack is not None}

    @property
    def drifted(self) -> tuple[BrokerRow, ...]:
        """Brokers that Kafka believes to be elsewhere."""
        return tuple(row for row in self.rows if row.drift)

    @property
    def duplicates(self) -> tuple[BrokerRow, ...]:
        """Brokers that more than one pod claims to be."""
        return tuple(row for row in self.rows if len(row.pods) > 1)

    def domain_counts(self) -> tuple[tuple[str, int], ...]:
        """How many domains there are per level."""
        paths = [row.rack for row in self.rows if row.rack is not None]
        return tuple(
            (name, len({path[: depth + 1] for path in paths if len(path) > depth}))
            for depth, name in enumerate(self.levels)
        )


def rack_view(
    topology: RackTopology,
    nodes: Mapping[str, Mapping[str, str]],
    pods: Iterable[BrokerPod],
    brokers: Iterable[BrokerDescription],
    away: Mapping[int, RackPath] = MappingProxyType({}),
    *,
    held: Collection[int] = (),
    consent: Mapping[str, str] = MappingProxyType({}),
) -> RackView:
    """The brokers that Kafka or the pods know of, and where each runs.

    `nodes` maps a node's name to its labels. `away` tells where brokers that may be down were last seen: Kafka lists
    only those that are up, and the pod of one that is being moved has no node. Their replicas are no worse for it.

    `consent` are the labels of the namespace of the brokers' pods. Where that is not the topology's own, nothing of its
    pods is told unless it consents, and nothing of those that Kafka does not know: it knows the brokers that are up,
    and of others the ids that hold replicas (`held`).
    """
    spec = topology.spec
    away = {broker: path for broker, path in away.items() if len(path) <= len(spec.levels)}
    seen = {broker.id: broker for broker in brokers}
    from_nodes = spec.rack_source == RackSource.NODES
    refused = not_shared(topology, consent) if from_nodes else None
    pods_by_id, passed_over = _pods_by_broker(topology, pods if from_nodes and refused is None else ())
    if topology.broker_namespace != topology.meta.namespace:
        pods_by_id = {id_: found for id_, found in pods_by_id.items() if id_ in seen or id_ in away or id_ in held}
        passed_over = []
    rows = []
    for broker_id in sorted(seen.keys() | pods_by_id.keys() | away.keys()):
        broker = seen.get(broker_id)
        claimants = pods_by_id.get(broker_id, [])
        pod = claimants[0] if len(claimants) == 1 else None
        node = pod.node if pod else None
        reported = _rack_from_broker(spec, broker)
        found = (refused or _rack_from_node(spec, claimants, nodes)) if from_nodes else reported
        if isinstance(found, Failure) and broker is None:
            found = away.get(broker_id, found)
        rack = None if isinstance(found, Failure) else found
        rows.append(
            BrokerRow(
                id=broker_id,
                host=broker.host if broker else None,
                pods=tuple(pod.name for pod in claimants),
                node=node,
                rack=rack,
                reported_rack=broker.rack if broker else None,
                online=broker is not None,
                eligible=broker_id not in spec.drain_brokers
                and not any(_below(rack, drained) for drained in spec.drain_racks),
                drift=broker is not None and rack is not None and rack != reported,
                problem=found if isinstance(found, Failure) else None,
            )
        )
    ignore = spec.missing_rack_policy == MissingRackPolicy.IGNORE and refused is None
    return RackView(spec.level_names, tuple(rows), ignore, tuple(sorted(passed_over)))


def not_shared(topology: RackTopology, consent: Mapping[str, str]) -> Failure | None:
    """Why a topology may not look for its brokers among the pods of another namespace; None where it may.

    Else whoever may write a RackTopology could read pods and nodes that he may not see.
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
    places: Mapping[int, RackPath], status: RackTopologyStatus, holders: Collection[int]
) -> dict[int, RackPath]:
    """Where brokers that hold replicas were last seen: in this run (`places`), else according to the status.

    A broker that holds none and is gone was decommissioned; it is forgotten.
    """
    told = {broker.id: path for broker in status.brokers if (path := _told(broker.rack)) is not None}
    return {broker: path for broker, path in (told | dict(places)).items() if broker in holders}


def _pods_by_broker(
    topology: RackTopology, pods: Iterable[BrokerPod]
) -> tuple[Mapping[int, list[BrokerPod]], Collection[str]]:
    """The pods of each broker, and the names of those that claim a number which no broker can have."""
    passed_over: list[str] = []
    found: defaultdict[int, list[BrokerPod]] = defaultdict(list)
    source = topology.spec.brokers
    if source is None:
        return found, passed_over
    for pod in pods:
        if pod.namespace != topology.broker_namespace or not source.pod_selector.matches(pod.labels):
            continue
        broker_id = broker_id_of(source.broker_id, pod)
        if broker_id is None:
            continue
        if 0 <= broker_id <= _MOST:
            found[broker_id].append(pod)
        else:
            passed_over.append(pod.name)
    for claimants in found.values():
        claimants.sort(key=lambda pod: pod.name)
    return found, passed_over


def broker_id_of(source: BrokerIdSpec, pod: BrokerPod) -> int | None:
    """The broker id that a pod stands for, which may be one that no broker can have; None where the pod does not say.

    A pod's owner writes the text: it may have more digits than Python takes for a number.
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
    return int(digits) + source.offset if len(digits) <= len(str(_MOST)) else _MOST + 1


def _rack_from_node(
    spec: RackTopologySpec, claimants: list[BrokerPod], nodes: Mapping[str, Mapping[str, str]]
) -> RackPath | Failure:
    if not claimants:
        return _missing("no pod of spec.brokers.podSelector has this broker id")
    if len(claimants) > 1:
        return _missing(f"pods {', '.join(pod.name for pod in claimants)} all claim this broker id")
    node = claimants[0].node
    if node is None:
        return _missing(f"pod {claimants[0].name} is not bound to a node")
    if node not in nodes:
        return _missing(f"node {node} is not known")
    return path_from_labels(spec, node, nodes[node])


def path_from_labels(spec: RackTopologySpec, node: str, labels: Mapping[str, str]) -> RackPath | Failure:
    """A node's rack path. It may end early, but a level above one that is there must not be missing."""
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
        return _invalid(f"{what} {text!r} is no rack path: {error}")
    if len(path) > len(spec.levels):
        return _invalid(f"{what} {text!r} has {len(path)} steps, the topology has {plural(len(spec.levels), 'level')}")
    return path


def _missing(message: str) -> Failure:
    return Failure(Reason.MISSING_RACKS, message, Remedy.SPEC)


def _invalid(message: str) -> Failure:
    return Failure(Reason.INVALID_RACK, message, Remedy.SPEC)


def _below(rack: RackPath | None, domain: str) -> bool:
    drained = parse_rack(domain)
    return rack is not None and rack[: len(drained)] == drained


def _told(rack: str | None) -> RackPath | None:
    try:
        return parse_rack(rack) if rack else None
    except RackPathError:
        return None
