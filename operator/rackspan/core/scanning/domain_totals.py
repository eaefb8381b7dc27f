"""What lies where: replicas, leaders, bytes and what-if, by domain and by broker. Tallies of portions add up."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from rackspan.core.outage import outages
from rackspan.core.snapshot import NONE, Partitions
from rackspan.core.topology import IntArray, RackTree


@dataclass(frozen=True, slots=True)
class DomainTotals:
    """
    What lies in one domain; the last level is `broker`, its domains are broker ids.

    `leaders` are preferred leaders, `leading` partitions led now. `offline`, `not_writable` and `last_replica` count
    the partitions that would be so without the domain. `bytes` is None where no size is known.
    """

    level: str
    domain: str
    brokers: int
    replicas: int
    leaders: int
    leading: int
    offline: int
    not_writable: int
    last_replica: int
    bytes: int | None

    def __add__(self, other: "DomainTotals") -> "DomainTotals":
        return replace(
            self,
            replicas=self.replicas + other.replicas,
            leaders=self.leaders + other.leaders,
            leading=self.leading + other.leading,
            offline=self.offline + other.offline,
            not_writable=self.not_writable + other.not_writable,
            last_replica=self.last_replica + other.last_replica,
            bytes=other.bytes if self.bytes is None else self.bytes + (other.bytes or 0),
        )


def holdings(tree: RackTree, partitions: Partitions, min_insync: IntArray) -> Iterator[DomainTotals]:
    """Tally every domain of every level, and every broker, in the tree's order. `min_insync` is per topic."""
    first = partitions.replicas[:, 0] if partitions.replicas.shape[1] else partitions.leader
    preferred, leading = tree.positions(first), tree.positions(partitions.leader)
    lost = outages(tree, partitions, min_insync)
    for level in tree.nodes[1:]:
        leaders = np.bincount(level.of_broker[preferred[preferred != NONE]], minlength=len(level)).tolist()
        led = np.bincount(level.of_broker[leading[leading != NONE]], minlength=len(level)).tolist()
        for number, row in zip(range(len(level)), lost, strict=False):
            outage = row.outage
            yield DomainTotals(
                row.level,
                row.domain,
                row.brokers,
                outage.replicas,
                leaders[number],
                led[number],
                outage.offline,
                outage.not_writable,
                outage.last_replica,
                outage.size_bytes,
            )


def added(portions: Iterable[DomainTotals]) -> list[DomainTotals]:
    """Add up the tallies of portions, each domain once, in the order in which they first come."""
    sums: dict[tuple[str, str], DomainTotals] = {}
    for portion in portions:
        key = (portion.level, portion.domain)
        sums[key] = sums[key] + portion if key in sums else portion
    return list(sums.values())
