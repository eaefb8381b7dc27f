"""Rows of consumer groups in the scan document: how much of what each group reads is in its members' racks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.core.consumers.group_locality import Locality, ReplicaPlaces, Selector, host_address, locality
from rackspan.reconcile.cluster.racks import path_from_labels
from rackspan.reconcile.failures import Failure
from rackspan.reports.document import MAX_GROUPS, GroupRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rackspan.api.racktopology import RackTopologySpec
    from rackspan.core.consumers.group_locality import GroupSeen
    from rackspan.core.rack_path import RackPath
    from rackspan.core.snapshot import Snapshot
    from rackspan.core.topology import FloatArray, RackTree


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Something with addresses on a node: a pod that is running, or the node itself."""

    addresses: tuple[str, ...]
    node: str | None


def racks_of_hosts(
    hosts: Iterable[HostFacts], nodes: Mapping[str, Mapping[str, str]], spec: RackTopologySpec
) -> dict[str, RackPath]:
    """
    Where addresses are, by the labels of the nodes they run on.

    `nodes` maps a node's name to its labels; `spec` names the levels' labels. An address whose node has no rack is
    left out, and so is one that is claimed in two racks.
    """
    of_node = {name: path_from_labels(spec, name, labels) for name, labels in nodes.items()}
    found: dict[str, set[RackPath]] = {}
    for host in hosts:
        rack = of_node.get(host.node or "")
        if rack is None or isinstance(rack, Failure):
            continue
        for address in host.addresses:
            found.setdefault(host_address(address), set()).add(rack)
    return {address: next(iter(racks)) for address, racks in found.items() if len(racks) == 1}


def group_rows(
    groups: Sequence[GroupSeen],
    snapshot: Snapshot,
    tree: RackTree,
    host_racks: Mapping[str, RackPath],
    selector: Selector = Selector.SAME_RACK,
    rates: Mapping[str, FloatArray] | None = None,
) -> list[GroupRow]:
    """
    Rows of the groups with the most cross-domain reads, at most MAX_GROUPS of them, those with the most first.

    `tree` is where brokers stand, `snapshot` has what they report. `host_racks` says where members' hosts are, by IP
    address (`racks_of_hosts`). `rates`, by group, are bytes per second that it reads of each of the snapshot's
    partitions, NaN where not known. Domains are those of the deepest level.
    """
    replicas = ReplicaPlaces(tree, snapshot.brokers, snapshot.partitions)
    found = worst_first(replicas, groups, host_racks, selector, rates)
    return [_row(group.name, seen) for group, seen in found[:MAX_GROUPS]]


def worst_first(
    replicas: ReplicaPlaces,
    groups: Sequence[GroupSeen],
    host_racks: Mapping[str, RackPath],
    selector: Selector,
    rates: Mapping[str, FloatArray] | None = None,
) -> list[tuple[GroupSeen, Locality]]:
    """Groups with how near they read, those with the most cross-domain reads first; arguments as of `group_rows`."""
    found = [
        (group, locality(replicas, group, host_racks, selector, (rates or {}).get(group.name))) for group in groups
    ]
    return sorted(found, key=_badness)


def _badness(found: tuple[GroupSeen, Locality]) -> tuple[float, int, int, int, str]:
    group, seen = found
    unread = seen.partitions - seen.reads_near
    return -(seen.cross_bytes_per_second or 0.0), -seen.reads_far, -unread, -seen.members, group.name


def _row(name: str, seen: Locality) -> GroupRow:
    return GroupRow(
        group=name,
        members=seen.members,
        partitions=seen.partitions,
        near=seen.near,
        reads_near=seen.reads_near,
        could_be_near=seen.could_be_near,
        members_without_rack=seen.members_without_rack,
        cross_bytes_per_second=seen.cross_bytes_per_second,
    )
