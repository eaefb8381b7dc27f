"""A Kafka cluster at one moment: its brokers, and every partition of its topics as parallel arrays.

Judging, planning and outage analysis process millions of partitions at once, so partitions are columns, not objects.
Replica lists are padded with -1 to the length of the longest list.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rackspan.core.partitions import TopicPartition
from rackspan.core.rack_path import RackPath, parse_rack
from rackspan.core.topology import BoolArray, Broker, BrokerLocation, IntArray, RackTree, TopologyError

BrokerIds = npt.NDArray[np.int32]
N = TypeVar("N", bound=np.integer[Any])

NONE = -1
"""No broker in an array of broker ids; also an unknown number of bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class Partitions:
    """
    Partitions of several topics, sorted by topic (in the order of `names`) and number: n partitions, up to w replicas.

    `topic` (n,) is an index into `names`, `number` (n,) the partition's id. `replicas` (n, w) are broker ids, the
    preferred leader first, padded with -1. `in_sync` (n, w) marks the replicas in the ISR, and `eligible` (n, w) the
    other replicas that can lead without data loss: the eligible leader replicas (KIP-966). `leader` (n,) is -1 if there
    is none. `size_bytes` (n,) is the size of one replica, -1 if it is not known.
    """

    names: tuple[str, ...]
    topic: IntArray
    number: IntArray
    replicas: BrokerIds
    in_sync: BoolArray
    eligible: BoolArray
    leader: IntArray
    size_bytes: IntArray

    def __len__(self) -> int:
        return len(self.topic)

    @property
    def replication_factor(self) -> IntArray:
        """The number of replicas of each partition, shape (n,)."""
        sizes: IntArray = (self.replicas != NONE).sum(axis=1)
        return sizes

    @property
    def fewest_replicas(self) -> IntArray:
        """The lowest replication factor in each topic, shape (len(names),); 0 for a topic without partitions."""
        largest = np.iinfo(np.int64).max
        fewest = np.full(len(self.names), largest)
        np.minimum.at(fewest, self.topic, self.replication_factor)
        return np.where(fewest == largest, 0, fewest)

    def ordered(self) -> "Partitions":
        """Return the partitions sorted by topic name and partition number."""
        by_name = sorted(range(len(self.names)), key=self.names.__getitem__)
        rank = np.empty(len(by_name), dtype=np.int64)
        rank[by_name] = np.arange(len(by_name))
        moved = replace(self, names=tuple(self.names[at] for at in by_name), topic=rank[self.topic])
        return moved.rows(np.lexsort((self.number, moved.topic)))

    def rows(self, chosen: BoolArray | IntArray) -> "Partitions":
        """Return the chosen partitions; `names` is unchanged."""
        return replace(
            self,
            topic=self.topic[chosen],
            number=self.number[chosen],
            replicas=self.replicas[chosen],
            in_sync=self.in_sync[chosen],
            eligible=self.eligible[chosen],
            leader=self.leader[chosen],
            size_bytes=self.size_bytes[chosen],
        )

    def holders(self, rows: IntArray) -> dict[TopicPartition, list[int]]:
        """Return the brokers to ask for the sizes of some partitions: the leader, or all replicas without a leader."""
        found = {}
        for row in rows.tolist():
            leader = int(self.leader[row])
            brokers = self.replicas[row].tolist() if leader == NONE else [leader]
            at = TopicPartition(self.names[self.topic[row]], int(self.number[row]))
            found[at] = [broker for broker in brokers if broker != NONE]
        return found

    def with_sizes(self, sizes: Mapping[TopicPartition, int]) -> "Partitions":
        """Return a copy with these sizes (bytes of one replica); partitions not in `sizes` keep their size."""
        if not sizes:
            return self
        topics = [self.names[topic] for topic in self.topic.tolist()]
        at = map(TopicPartition, topics, self.number.tolist())
        found = [sizes.get(one, size) for one, size in zip(at, self.size_bytes.tolist(), strict=True)]
        return replace(self, size_bytes=np.array(found, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A cluster's brokers, partitions and topic configurations (`configs` is in the order of `partitions.names`).

    A partition may name a broker that is not listed: the broker was removed, or was down at that moment. `inherited`
    are the configs of each topic that come from the brokers and are not set on the topic itself. If it is empty, this
    is not known, and all configs count as set on the topic.
    """

    cluster_id: str | None
    brokers: tuple[BrokerLocation, ...]
    partitions: Partitions
    configs: tuple[Mapping[str, str], ...]
    inherited: tuple[frozenset[str], ...] = ()

    def own_config(self, topic: int) -> Mapping[str, str]:
        """Return the configs that are set on the topic with this index itself."""
        config = self.configs[topic]
        inherited = self.inherited[topic] if self.inherited else frozenset()
        return {key: value for key, value in config.items() if key not in inherited} if inherited else config

    @property
    def unknown_brokers(self) -> tuple[int, ...]:
        """The broker ids that partitions name but `brokers` does not contain, ascending."""
        known = [NONE, *(broker.id for broker in self.brokers)]
        return tuple(np.setdiff1d(self.partitions.replicas, known).tolist())


def in_row(rows: npt.NDArray[np.integer], others: npt.NDArray[np.integer]) -> BoolArray:
    """Return which entries of each row are in the same row of `others`, in the shape of `rows`."""
    found = np.zeros(rows.shape, dtype=bool)
    for column in others.T:
        found |= rows == column[:, None]
    return found


def of_width(rows: npt.NDArray[N], width: int) -> npt.NDArray[N]:
    """Return a copy of the rows, cut to `width` or padded with -1."""
    return np.pad(rows[:, :width], ((0, 0), (0, max(width - rows.shape[1], 0))), constant_values=NONE)


def table(
    names: Sequence[str],
    partitions: Iterable[tuple[int, int, Sequence[int], Collection[int], int | None, int | None]],
    eligible: Mapping[TopicPartition, Collection[int]] = MappingProxyType({}),
) -> Partitions:
    """Return the columns for one tuple per partition: topic index, number, replicas, ISR, leader, bytes of one replica.

    `eligible` maps partitions to their eligible leader replicas, if any. Use this for few partitions only: readers of
    large files fill the arrays directly.
    """
    rows = sorted(partitions, key=lambda row: row[:2])
    width = max((len(row[2]) for row in rows), default=0) or 1
    replicas = np.full((len(rows), width), NONE, dtype=np.int32)
    in_sync, may_lead = np.zeros((2, len(rows), width), dtype=bool)
    for at, (topic, number, brokers, isr, _, _) in enumerate(rows):
        replicas[at, : len(brokers)] = brokers
        in_sync[at, : len(brokers)] = [broker in isr for broker in brokers]
        if found := eligible.get(TopicPartition(names[topic], number)):
            may_lead[at, : len(brokers)] = [broker in found and broker not in isr for broker in brokers]
    return Partitions(
        tuple(names),
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        replicas,
        in_sync,
        may_lead,
        np.array([NONE if row[4] is None else row[4] for row in rows], dtype=np.int64),
        np.array([NONE if row[5] is None else row[5] for row in rows], dtype=np.int64),
    )


def tree_of(
    brokers: Iterable[BrokerLocation],
    levels: Sequence[str] = (),
    *,
    drained: Collection[int] = (),
    ignore_racks: bool = False,
) -> RackTree:
    """Return the rack tree of brokers by the racks that Kafka reports, which are paths.

    `levels` name the steps, top first. The default is one level per step of the longest path, named `level-1`,
    `level-2` …, or `rack` if all paths are flat. Brokers in `drained` are not eligible. Raises RackPathError and
    TopologyError.
    """
    racks: dict[int, RackPath | None] = {}
    cordoned = set()
    for broker in brokers:
        if broker.id in racks:
            raise TopologyError(f"broker {broker.id} is listed twice")
        if broker.cordoned:
            cordoned.add(broker.id)
        racks[broker.id] = None if broker.reported_rack is None or ignore_racks else parse_rack(broker.reported_rack)
    depth = max((len(rack) for rack in racks.values() if rack), default=0)
    names = tuple(levels) or (("rack",) if depth == 1 else tuple(f"level-{step + 1}" for step in range(depth)))
    return RackTree(
        () if ignore_racks else names,
        tuple(
            Broker(broker, rack, eligible=broker not in drained, cordoned=broker in cordoned)
            for broker, rack in racks.items()
        ),
    )
