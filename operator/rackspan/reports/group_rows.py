"""Rows of consumer groups in the scan document: how much each group reads in the racks of its members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.core.consumers.group_locality import Locality, ReplicaPlaces, Selector, host_address, locality
from rackspan.core.consumers.rates import unknown_rates
from rackspan.reconcile.cluster.racks import path_from_labels
from rackspan.reconcile.failures import Failure
from rackspan.reports.document import MAX_GROUPS, GroupRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rackspan.api.racktopology import RackTopologySpec
    from rackspan.core.consumers.group_locality import GroupSeen
    from rackspan.core.consumers.rates import RatesOf
    from rackspan.core.rack_path import RackPath
    from rackspan.core.snapshot import Snapshot
    from rackspan.core.topology import RackTree


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The addresses of a running pod or of a node, and the name of the node."""

    addresses: tuple[str, ...]
    node: str | None


def racks_of_hosts(
    hosts: Iterable[HostFacts], nodes: Mapping[str, Mapping[str, str]], spec: RackTopologySpec
) -> dict[str, RackPath]:
    """Return the rack of each address, from the labels of its node.

    `nodes` maps a node's name to its labels. `spec` names the labels of the levels. Addresses whose node has no rack,
    and addresses that appear in two racks, are left out.
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
    rates_of: RatesOf = unknown_rates,
) -> list[GroupRow]:
    """Return the rows of at most MAX_GROUPS groups, those with the most cross-domain reads first.

    `tree` has the actual racks of brokers, `snapshot` the reported ones. `host_racks` has the racks of members' hosts
    by IP address (`racks_of_hosts`). `rates_of` returns the bytes per second that a group reads from each of the
    snapshot's partitions, NaN if not known. Domains are those of the deepest level.
    """
    replicas = ReplicaPlaces(tree, snapshot.brokers, snapshot.partitions)
    found = worst_first(replicas, groups, host_racks, selector, rates_of)
    return [_row(group.name, seen) for group, seen in found[:MAX_GROUPS]]


def worst_first(
    replicas: ReplicaPlaces,
    groups: Sequence[GroupSeen],
    host_racks: Mapping[str, RackPath],
    selector: Selector,
    rates_of: RatesOf = unknown_rates,
) -> list[tuple[GroupSeen, Locality]]:
    """Return groups and how near they read, the most cross-domain reads first. Arguments are as in `group_rows`."""
    found = [(group, locality(replicas, group, host_racks, selector, rates_of(group.name))) for group in groups]
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
