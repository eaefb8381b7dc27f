"""A synthetic cluster of any size. Its replicas are placed fairly, except those of a share of its partitions."""

from dataclasses import dataclass

import numpy as np

from rackspan.core.rack_path import format_rack
from rackspan.core.scanning import BrokerLocations
from rackspan.core.snapshot import Partitions
from rackspan.core.topology import BrokerLocation

_LEVELS = ("region", "zone", "rack")
_PORTION = 200_000


@dataclass(frozen=True, slots=True)
class SyntheticCluster:
    """One region of three zones, in racks of ten brokers; replication factor 3. The same fields give the same cluster.

    `broken` is the share (0 to 1) of partitions with two replicas in one zone. `behind` is the share of partitions with
    a replica out of sync.
    """

    partitions: int
    brokers: int = 1_000
    per_topic: int = 100
    broken: float = 0.01
    behind: float = 0.005
    min_insync: int = 2
    seed: int = 1

    @property
    def topics(self) -> int:
        """The number of topics."""
        return -(-self.partitions // self.per_topic)

    @property
    def topics_at_once(self) -> int:
        """The number of topics that are generated at once, so that a portion has about 200,000 partitions."""
        return max(1, _PORTION // self.per_topic)

    @property
    def locations(self) -> BrokerLocations:
        """The racks of the brokers."""
        return BrokerLocations(_LEVELS, tuple(self._broker(number) for number in range(self.brokers)))

    def _broker(self, number: int) -> BrokerLocation:
        zone, place = number % 3, number // 3
        rack = ("eu", f"eu-1{'abc'[zone]}", f"r{place // 10}")
        return BrokerLocation(number, format_rack(rack), rack)

    def portion(self, start: int, stop: int) -> Partitions:
        """Return the partitions of the topics from `start` up to `stop` (exclusive)."""
        first, last = start * self.per_topic, min(stop * self.per_topic, self.partitions)
        index = np.arange(first, last, dtype=np.int64)
        place = -(-self.brokers // 3)
        replicas = np.stack(
            [((index + shift) % 3) + 3 * ((index * 7 + shift * 31) % (place - 1)) for shift in range(3)], axis=1
        ).astype(np.int32)
        wrong, behind = (
            np.random.Generator(np.random.PCG64([self.seed, at]).advance(first)).random(len(index)) < share
            for at, share in enumerate((self.broken, self.behind))
        )
        replicas[wrong, 1] = (replicas[wrong, 0] + 3) % (3 * (place - 1))
        in_sync = np.ones(replicas.shape, dtype=bool)
        in_sync[behind, 2] = False
        return Partitions(
            tuple(f"topic-{number:06d}" for number in range(start, stop)),
            index // self.per_topic - start,
            index % self.per_topic,
            replicas,
            in_sync,
            np.zeros(replicas.shape, dtype=bool),
            replicas[:, 0].astype(np.int64),
            1_000_000 + (index * 7919) % 1_000_000_000,
        )
