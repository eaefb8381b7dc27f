"""
Consumer locality: which replica each member of a group reads from, and whether that is in its own domain.

Where a member is comes from the host it runs on; which replica serves it is decided by the broker that leads, which
knows only the rack id that the client sends, `client.rack` (KIP-392):

- `LEADER`: Kafka's default, no `replica.selector.class`.
- `SAME_RACK`: `RackAwareReplicaSelector`: a replica in sync whose `broker.rack` is exactly the client's, the leader if
  it is one of them, and the leader where there is none.
- `NEAREST`: Rackspan's plug-in for brokers, the same made hierarchical: the most leading steps in common between
  `broker.rack` and the client's, the leader winning ties, and the leader where not even the first step is the same. An
  id that is no path is one step of its own. `plugins/cases` has examples, by which both are tested.

Where several replicas are equally good and none of them leads, Kafka takes the one that lags least. What lags is not
known here, so the first in the replica list stands for them.

A member is near a partition that has a replica in its domain, by default of the deepest named level. As in the rack
tree, paths that end early share one unnamed domain. Of a member or broker without a rack nothing is near.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import TypeVar

import numpy as np

from rackspan.core.consumers.assignors import Readers, assign_evenly, assign_ranges
from rackspan.core.rack_path import RackPath, rack_or_none
from rackspan.core.snapshot import NONE, Partitions
from rackspan.core.topology import BoolArray, BrokerLocation, FloatArray, IntArray, RackTree

_T = TypeVar("_T")

_RANGE = "range"
_NO_ID = -1  # a broker without `broker.rack`
_FOREIGN_ID = -2  # a `client.rack` that no broker has


class Selector(StrEnum):
    """How brokers choose the replica that serves a consumer."""

    LEADER = "Leader"
    SAME_RACK = "SameRack"
    NEAREST = "Nearest"


class GroupProtocol(StrEnum):
    """
    What a group is, in Kafka's words.

    Consumers assign partitions themselves (classic), or brokers do (KIP-848). Those of a share group read from leaders,
    and several may read a partition (KIP-932). To members of a streams group brokers assign tasks (KIP-1071).
    """

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """
    A member of a consumer group, as Kafka describes it.

    `host` is a `host_address`. `partitions` are those assigned to it, by topic. `client_rack` is None where it is not
    set, or where Kafka does not report it; `topics`, its subscription, is None where Kafka does not report it.
    """

    id: str
    client_id: str
    host: str
    partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    client_rack: str | None = None
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """
    A group and its members, none when it is empty.

    `assignor` is such as `range`, empty where unknown. `racks_seen` is false where Kafka did not say the `client.rack`
    of all members.
    """

    name: str
    assignor: str = ""
    members: tuple[MemberSeen, ...] = ()
    protocol: GroupProtocol = GroupProtocol.CLASSIC
    racks_seen: bool = True


@dataclass(frozen=True, slots=True)
class Locality:
    """
    How near a group reads. Counts of partitions, among the `partitions` that are assigned and still exist.

    `near`: the member could read them in its own domain; `reads_near`: it does; `reads_far`: it reads them from another
    domain (of the rest, there is no leader, or it is not known where they or their readers are). `could_be_near`: with
    a rack-aware assignment (`core.consumers.assignors`); fewer than `near` only where counts are uneven now.
    `cross_bytes_per_second` is what comes from other domains, of the partitions whose rate is known; None where none
    is.

    In a share group, a partition counts once for each member that reads it, what is near is led in the member's domain,
    and `could_be_near` is a bound that no assignment with as many partitions for each member exceeds. In a streams
    group `could_be_near` is `near`: tasks are not assigned here.
    """

    members: int
    members_without_rack: int
    partitions: int
    near: int
    reads_near: int
    reads_far: int
    could_be_near: int
    cross_bytes_per_second: float | None

    @property
    def share_not_read_near(self) -> float:
        """Share of the partitions that are not known to be read near by, from 0 to 1; 0 where none is assigned."""
        return (self.partitions - self.reads_near) / self.partitions if self.partitions else 0.0


class ReplicaPlaces:
    """Where the replicas of a cluster stand, prepared once for all its groups."""

    def __init__(
        self, tree: RackTree, brokers: Sequence[BrokerLocation], partitions: Partitions, level: str | None = None
    ) -> None:
        """`brokers` carry `broker.rack` as Kafka reports it. Raises TopologyError for a level that there is not."""
        self.tree = tree
        self.partitions = partitions
        self.at = tree.positions(partitions.replicas)
        self.leader = tree.positions(partitions.leader)
        self._depth = len(tree.levels) if level is None else tree.levels.index(tree.level(level).name) + 1
        self.level = tree.levels[self._depth - 1] if self._depth else "cluster"
        """Name of the level whose domains count; `cluster` where brokers have no racks."""
        self._racks: tuple[RackPath | None, ...] = _in_order(tree, {b.id: b.rack for b in tree.brokers})
        self._domains = {path: at for at, path in enumerate(tree.nodes[self._depth].paths)} if self._depth else {}
        self.domain = np.array([*(self.domain_of(rack) for rack in self._racks), NONE], dtype=np.int64)
        """(brokers + 1,): the domain of each broker in depth-first order; the last, -1, of one that is not known."""
        reported = _in_order(tree, {broker.id: broker.reported_rack for broker in brokers})
        self._ids = {rack: at for at, rack in enumerate(sorted({rack for rack in reported if rack}))}
        self.reported = np.array([*(self._ids.get(rack or "", _NO_ID) for rack in reported), _NO_ID], dtype=np.int64)
        self._reported_steps = tuple(_steps(rack) for rack in reported)
        self._standing = {rack for rack in self._racks if rack}
        self._reporting = _agreed(reported, self._racks)
        self._topics = {name: at for at, name in enumerate(partitions.names)}
        self._span = int(partitions.number.max(initial=0)) + 1
        keys = partitions.topic * self._span + partitions.number
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def domain_of(self, rack: RackPath | None) -> int:
        """Index of the domain that a rack path lies in, -1 where no broker is in it."""
        if not rack:
            return NONE
        padded = rack + ("",) * (self._depth - len(rack))
        return self._domains.get(padded[: self._depth], NONE)

    def id_of(self, client_rack: str | None) -> int:
        """Index of a rack id among those that brokers report."""
        return self._ids.get(client_rack or "", _FOREIGN_ID)

    def is_reported(self, client_rack: str) -> bool:
        """Whether a broker has the very same rack id."""
        return client_rack in self._ids

    def rack_named(self, client_rack: str | None) -> RackPath | None:
        """
        Where a client is that names its own rack.

        An id that is not a path of the tree, such as an alias, stands for where the brokers are that report it.
        """
        path = rack_or_none(client_rack)
        if path in self._standing:
            return path
        return self._reporting.get(client_rack or "") or path

    def rows(self, topics: Sequence[str], numbers: Sequence[int]) -> IntArray:
        """Rows of partitions in the table; -1 for those that it does not have."""
        topic = np.array([self._topics.get(name, NONE) for name in topics], dtype=np.int64)
        number = np.array(numbers, dtype=np.int64)
        if not len(self._keys):
            return np.full(len(topic), NONE, dtype=np.int64)
        keys = topic * self._span + number
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        known = (topic >= 0) & (number >= 0) & (number < self._span) & (self._keys[at] == keys)
        return np.where(known, self._order[at], NONE)

    def shared_steps(self, client_rack: str | None) -> IntArray:
        """Leading steps that each broker's own rack id has in common with a client's, shape (brokers + 1,)."""
        steps = _steps(client_rack)
        return np.array([*(_common(steps, other) for other in self._reported_steps), 0], dtype=np.int64)


def host_address(host: str) -> str:
    """Write an IP address in its one short form; brokers report `/10.0.0.7` and `/fd00:0:0:0:0:0:0:7`."""
    text = host.removeprefix("/").partition("%")[0]
    try:
        return str(ip_address(text))
    except ValueError:
        return text


def locality(
    replicas: ReplicaPlaces,
    group: GroupSeen,
    racks: Mapping[str, RackPath],
    selector: Selector = Selector.SAME_RACK,
    rates: FloatArray | None = None,
) -> Locality:
    """
    Say how near a group reads.

    `racks` says where hosts are, by IP address; a member on another host is where its `client.rack` says. `rates` are
    bytes per second that a group reads of each partition in `replicas`, shape (n,), NaN where not known.
    """
    places = [racks.get(member.host) or replicas.rack_named(member.client_rack) for member in group.members]
    without = sum(place is None for place in places)
    reading, row = _assigned(replicas, group)
    if not len(row):
        return Locality(len(places), without, 0, 0, 0, 0, 0, None)
    here = np.array([replicas.domain_of(place) for place in places], dtype=np.int64)
    shared = group.protocol is GroupProtocol.SHARE
    held = replicas.domain[replicas.leader[row][:, None] if shared else replicas.at[row]]
    home = here[reading]
    near = ((held == home[:, None]) & (home != NONE)[:, None]).any(axis=1)
    source = replicas.domain[_served_by(replicas, group, reading, row, selector)]
    known = np.array([place is not None for place in places], dtype=bool)[reading] & (source != NONE)
    far = known & (source != home)
    return Locality(
        members=len(places),
        members_without_rack=without,
        partitions=len(row),
        near=int(np.count_nonzero(near)),
        reads_near=int(np.count_nonzero(known & (source == home))),
        reads_far=int(np.count_nonzero(far)),
        could_be_near=_could_be_near(replicas, group, reading, row, here, near),
        cross_bytes_per_second=None if rates is None else _sum_of_known(rates[row][known], far[known]),
    )


def nearest(replicas: ReplicaPlaces, row: IntArray, client_racks: Sequence[str | None]) -> IntArray:
    """
    Positions of the brokers whose replica in sync is nearest to clients, one for each of the partitions in `row`.

    The leader where no replica shares a step with the client's rack id; -1 where there is no leader.
    """
    kinds = {rack: at for at, rack in enumerate(dict.fromkeys(client_racks))}
    steps = np.array([replicas.shared_steps(rack) for rack in kinds]).reshape(len(kinds), -1)
    kind = np.array([kinds[rack] for rack in client_racks], dtype=np.int64)
    at, leader = replicas.at[row], replicas.leader[row]
    shared = steps[kind[:, None], at]
    closeness = 2 * shared + ((shared > 0) & (at == leader[:, None]))
    return _chosen(replicas, row, np.where(_fit(replicas, row), closeness, 0))


def _served_by(
    replicas: ReplicaPlaces, group: GroupSeen, reading: IntArray, row: IntArray, selector: Selector
) -> IntArray:
    """Position of the broker that serves each partition, -1 where none does."""
    match Selector.LEADER if group.protocol is GroupProtocol.SHARE else selector:
        case Selector.LEADER:
            return replicas.leader[row]
        case Selector.SAME_RACK:
            ids = np.array([replicas.id_of(member.client_rack) for member in group.members], dtype=np.int64)
            at = replicas.at[row]
            same = _fit(replicas, row) & (replicas.reported[at] == ids[reading][:, None])
            return _chosen(replicas, row, 2 * same + (same & (at == replicas.leader[row][:, None])))
        case Selector.NEAREST:
            return nearest(replicas, row, [group.members[member].client_rack for member in reading.tolist()])


def _fit(replicas: ReplicaPlaces, row: IntArray) -> BoolArray:
    """Which replicas may serve: those in sync on brokers that are known."""
    fit: BoolArray = replicas.partitions.in_sync[row] & (replicas.at[row] != NONE)
    return fit


def _chosen(replicas: ReplicaPlaces, row: IntArray, score: IntArray) -> IntArray:
    """The replica with the highest score, the leader where all have zero or where there is none to ask."""
    best = replicas.at[row, score.argmax(axis=1)]
    asked = (score.max(axis=1, initial=0) > 0) & (replicas.partitions.leader[row] != NONE)
    return np.where(asked, best, replicas.leader[row])


def _assigned(replicas: ReplicaPlaces, group: GroupSeen) -> tuple[IntArray, IntArray]:
    """
    Which member reads which row of the table.

    Outside share groups, a partition that two claim for a moment counts for the first.
    """
    claims = [
        (at, topic, number)
        for at, member in enumerate(group.members)
        for topic, numbers in member.partitions.items()
        for number in numbers
    ]
    rows = replicas.rows([topic for _, topic, _ in claims], [number for *_, number in claims])
    known = np.flatnonzero(rows != NONE)
    reading, row = np.array([at for at, *_ in claims], dtype=np.int64)[known], rows[known]
    if group.protocol is GroupProtocol.SHARE:
        return reading, row
    row, first = np.unique(row, return_index=True)
    return reading[first], row


def _could_be_near(
    replicas: ReplicaPlaces, group: GroupSeen, reading: IntArray, row: IntArray, here: IntArray, near: BoolArray
) -> int:
    if group.protocol is GroupProtocol.STREAMS:
        return int(np.count_nonzero(near))
    domains = np.unique(here[here != NONE])
    if not len(domains):
        return 0
    topics, topic = np.unique(replicas.partitions.topic[row], return_inverse=True)
    subscribed = np.zeros((len(here), len(topics)), dtype=bool)
    subscribed[reading, topic] = True
    names = [replicas.partitions.names[at] for at in topics.tolist()]
    for at, member in enumerate(group.members):
        subscribed[at] |= [member.topics is None or name in member.topics for name in names]
    if group.protocol is GroupProtocol.SHARE:
        return _most_shared_near(replicas, reading, row, topic.reshape(-1), here, subscribed)
    held = replicas.domain[replicas.at[row]]
    in_domains = np.column_stack([(held == domain).any(axis=1) for domain in domains])
    domain = np.where(here == NONE, NONE, np.searchsorted(domains, here))
    readers = Readers(topic.reshape(-1), replicas.partitions.number[row], in_domains, domain, subscribed)
    return (assign_ranges if group.assignor == _RANGE else assign_evenly)(readers).near


def _most_shared_near(
    replicas: ReplicaPlaces, reading: IntArray, row: IntArray, topic: IntArray, here: IntArray, subscribed: BoolArray
) -> int:
    """
    A bound on what a share group reads near with as many partitions for each member as now.

    No member has more near than it has, or than there are; and a partition that is near to no member takes a place.
    `subscribed` is (members, topics).
    """
    _, first = np.unique(row, return_index=True)
    led = np.zeros((subscribed.shape[1], int(replicas.domain.max()) + 2), dtype=np.int64)
    np.add.at(led, (topic[first], replicas.domain[replicas.leader[row[first]]]), 1)
    led[:, NONE] = 0  # the last column is of what is led nowhere
    near = (subscribed * led[:, here].T).sum(axis=1)
    has = np.bincount(reading, minlength=len(here))
    reached = sum(int(led[subscribed[here == domain].any(axis=0), domain].sum()) for domain in np.unique(here).tolist())
    return int(min(np.minimum(has, near).sum(), len(row) - (len(first) - reached)))


def _sum_of_known(rates: FloatArray, chosen: BoolArray) -> float | None:
    known = ~np.isnan(rates)
    return float(rates[known & chosen].sum()) if known.any() else None


def _in_order(tree: RackTree, values: Mapping[int, _T]) -> tuple[_T | None, ...]:
    """By the tree's depth-first order."""
    return tuple(values.get(broker) for broker in tree.ids.tolist())


def _agreed(reported: Sequence[str | None], racks: Sequence[RackPath | None]) -> dict[str, RackPath]:
    """Where the brokers are that report a rack id, if they are all in one place."""
    places: dict[str, set[RackPath]] = {}
    for rack_id, rack in zip(reported, racks, strict=True):
        if rack_id and rack:
            places.setdefault(rack_id, set()).add(rack)
    return {rack_id: next(iter(found)) for rack_id, found in places.items() if len(found) == 1}


def _common(one: RackPath, other: RackPath) -> int:
    steps = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        steps += 1
    return steps


def _steps(rack_id: str | None) -> RackPath:
    """A rack id as brokers compare it: an id that is no path is one step, which no path has; without an id none."""
    return rack_or_none(rack_id) or ((rack_id,) if rack_id else ())
