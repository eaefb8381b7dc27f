"""Consumer locality: the replica that each member of a group reads from, and whether that replica is in its own domain.

The host of a member determines its domain. The leader chooses the replica that serves the member, and it knows only the
rack id that the client sends, `client.rack` (KIP-392):

- `LEADER`: Kafka's default, no `replica.selector.class`.
- `SAME_RACK`: `RackAwareReplicaSelector`: an in-sync replica whose `broker.rack` equals the client's rack id. The
  leader is preferred among these, and serves the client if there are none.
- `NEAREST`: Rackspan's plug-in for brokers, the hierarchical variant: the replica whose `broker.rack` has the most
  leading steps in common with the client's rack id. The leader wins ties, and serves the client if no replica shares
  the first step. An id that is not a path is one step of its own. The examples in `plugins/cases` test both this code
  and the plug-in.

If several replicas are equally good and none is the leader, Kafka takes the one that lags least. The lag is not known
here, so the first one in the replica list is taken.

A member is near a partition that has a replica in its domain, by default of the deepest named level. As in the rack
tree, paths that end early share one unnamed domain. Nothing is near a member or broker without a rack.
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
_MOST_KINDS = 1_000
"""The most kinds of members (domain and subscription) for an exact `could_be_near`: its memory grows with their square.
Members choose their subscriptions, so one user can make any number of kinds."""
_NO_ID = -1  # a broker without `broker.rack`
_FOREIGN_ID = -2  # a `client.rack` that no broker has


class Selector(StrEnum):
    """How brokers choose the replica that serves a consumer."""

    LEADER = "Leader"
    SAME_RACK = "SameRack"
    NEAREST = "Nearest"


class GroupProtocol(StrEnum):
    """The type of a group, in Kafka's terms.

    Consumers assign partitions themselves (classic), or brokers do (KIP-848). Members of a share group read from
    leaders, and several may read one partition (KIP-932). In a streams group brokers assign tasks (KIP-1071).
    """

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """A member of a consumer group, as Kafka describes it.

    `host` is a `host_address`. `partitions` are the assigned ones, by topic. `client_rack` is None if it is not set or
    Kafka does not report it. `topics` is the subscription, None if Kafka does not report it.
    """

    id: str
    client_id: str
    host: str
    partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    client_rack: str | None = None
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group and its members; an empty group has none.

    `assignor` is a name such as `range`, empty if unknown. `racks_seen` is false if Kafka did not report the
    `client.rack` of all members.
    """

    name: str
    assignor: str = ""
    members: tuple[MemberSeen, ...] = ()
    protocol: GroupProtocol = GroupProtocol.CLASSIC
    racks_seen: bool = True


@dataclass(frozen=True, slots=True)
class Locality:
    """The locality of a group, as counts of partitions. `partitions` are those that are assigned and still exist.

    `near`: the member could read them in its own domain. `reads_near`: it does. `reads_far`: it reads them from another
    domain. The rest has no leader, or the domain of the partition or of its reader is not known. `could_be_near`: near
    with a rack-aware assignment (`core.consumers.assignors`); less than `near` only if the present counts are uneven.
    `cross_bytes_per_second` is read from other domains, of partitions with a known rate; None if no rate is known.

    In a share group, a partition counts once for each member that reads it, and is near if its leader is in the
    member's domain. `could_be_near` is an upper bound for assignments with as many partitions per member. In a streams
    group `could_be_near` is `near`, because this module does not assign tasks.
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
        """The share of the partitions that are not known to be read near, from 0 to 1; 0 if none is assigned."""
        return (self.partitions - self.reads_near) / self.partitions if self.partitions else 0.0


class ReplicaPlaces:
    """The domains of the replicas of a cluster, computed once for all its groups."""

    def __init__(
        self, tree: RackTree, brokers: Sequence[BrokerLocation], partitions: Partitions, level: str | None = None
    ) -> None:
        """`brokers` have `broker.rack` as Kafka reports it. Raises TopologyError if the level does not exist."""
        self.tree = tree
        self.partitions = partitions
        self.at = tree.positions(partitions.replicas)
        self.leader = tree.positions(partitions.leader)
        self._depth = len(tree.levels) if level is None else tree.levels.index(tree.level(level).name) + 1
        self.level = tree.levels[self._depth - 1] if self._depth else "cluster"
        """The name of the level whose domains count; `cluster` if the tree has no levels."""
        self._racks: tuple[RackPath | None, ...] = _in_order(tree, {b.id: b.rack for b in tree.brokers})
        self._domains = {path: at for at, path in enumerate(tree.nodes[self._depth].paths)} if self._depth else {}
        self.domain = np.array([*(self.domain_of(rack) for rack in self._racks), NONE], dtype=np.int64)
        """(brokers + 1,): the domain of each broker in depth-first order; the last, -1, is for an unknown broker."""
        reported = _in_order(tree, {broker.id: broker.reported_rack for broker in brokers})
        self._ids = {rack: at for at, rack in enumerate(sorted({rack for rack in reported if rack}))}
        self.reported = np.array([*(self._ids.get(rack or "", _NO_ID) for rack in reported), _NO_ID], dtype=np.int64)
        self._beginnings = _beginnings([*map(_steps, reported), ()])
        self._standing = {rack for rack in self._racks if rack}
        self._reporting = _agreed(reported, self._racks)
        self._topics = {name: at for at, name in enumerate(partitions.names)}
        self._span = int(partitions.number.max(initial=0)) + 1
        keys = partitions.topic * self._span + partitions.number
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def domain_of(self, rack: RackPath | None) -> int:
        """Return the index of the domain of a rack path, -1 if no broker is in that domain."""
        if not rack:
            return NONE
        padded = rack + ("",) * (self._depth - len(rack))
        return self._domains.get(padded[: self._depth], NONE)

    def id_of(self, client_rack: str | None) -> int:
        """Return the index of a rack id among the ids that brokers report; `_FOREIGN_ID` if no broker reports it."""
        return self._ids.get(client_rack or "", _FOREIGN_ID)

    def is_reported(self, client_rack: str) -> bool:
        """Return whether a broker reports exactly this rack id."""
        return client_rack in self._ids

    def rack_named(self, client_rack: str | None) -> RackPath | None:
        """Return the rack path of a client, from its `client.rack`.

        If the id is not a rack of the tree, such as an alias, the rack of the brokers that report it counts.
        """
        path = rack_or_none(client_rack)
        if path in self._standing:
            return path
        return self._reporting.get(client_rack or "") or path

    def rows(self, topics: Sequence[str], numbers: Sequence[int]) -> IntArray:
        """Return the rows of partitions in the table; -1 for partitions that are not in the table."""
        topic = np.array([self._topics.get(name, NONE) for name in topics], dtype=np.int64)
        number = np.array(numbers, dtype=np.int64)
        if not len(self._keys):
            return np.full(len(topic), NONE, dtype=np.int64)
        keys = topic * self._span + number
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        known = (topic >= 0) & (number >= 0) & (number < self._span) & (self._keys[at] == keys)
        return np.where(known, self._order[at], NONE)

    def shared_steps(self, at: IntArray, client_racks: Sequence[str | None]) -> IntArray:
        """Return how many leading steps the rack ids of brokers share with clients' ids, in the shape of `at`.

        `at` (n, replicas) are positions of brokers. `client_racks` has one id for each row.
        """
        kinds = {rack: kind for kind, rack in enumerate(dict.fromkeys(client_racks))}
        kind = np.array([kinds[rack] for rack in client_racks], dtype=np.int64)
        shared = np.zeros(at.shape, dtype=np.int64)
        steps = [_steps(rack) for rack in kinds]
        for length, (numbers, of_broker) in enumerate(self._beginnings, start=1):
            wanted = np.array([numbers.get(one[:length], _FOREIGN_ID) for one in steps], dtype=np.int64)
            shared += of_broker[at] == wanted[kind][:, None]
        return shared


def host_address(host: str) -> str:
    """Return an IP address in its canonical short form; brokers report `/10.0.0.7` and `/fd00:0:0:0:0:0:0:7`."""
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
    """Return the locality of a group.

    `racks` has the rack of hosts by IP address. A member on another host is in the rack of its `client.rack`. `rates`
    are the bytes per second that the group reads of each partition in `replicas`, shape (n,), NaN if not known.
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
    """Return the position of the broker with the in-sync replica nearest to the client, for each partition in `row`.

    This is the leader if no replica shares a step with the client's rack id, and -1 if there is no leader.
    """
    at, leader = replicas.at[row], replicas.leader[row]
    shared = replicas.shared_steps(at, client_racks)
    closeness = 2 * shared + ((shared > 0) & (at == leader[:, None]))
    return _chosen(replicas, row, np.where(_fit(replicas, row), closeness, 0))


def _served_by(
    replicas: ReplicaPlaces, group: GroupSeen, reading: IntArray, row: IntArray, selector: Selector
) -> IntArray:
    """Return the position of the broker that serves each partition, -1 if none does."""
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
    """Return which replicas can serve clients: in-sync replicas on known brokers."""
    fit: BoolArray = replicas.partitions.in_sync[row] & (replicas.at[row] != NONE)
    return fit


def _chosen(replicas: ReplicaPlaces, row: IntArray, score: IntArray) -> IntArray:
    """Return the replica with the highest score; the leader's position if all scores are 0 or there is no leader."""
    best = replicas.at[row, score.argmax(axis=1)]
    asked = (score.max(axis=1, initial=0) > 0) & (replicas.partitions.leader[row] != NONE)
    return np.where(asked, best, replicas.leader[row])


def _assigned(replicas: ReplicaPlaces, group: GroupSeen) -> tuple[IntArray, IntArray]:
    """Return pairs of a member and the row of the table that it reads.

    Outside share groups, a partition that two members claim for a moment counts for the first member.
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
    columns = {replicas.partitions.names[topic]: column for column, topic in enumerate(topics.tolist())}
    chosen: dict[frozenset[str] | None, IntArray] = {None: np.arange(len(columns))}
    for at, member in enumerate(group.members):
        if member.topics is not None and member.topics not in chosen:
            found = [columns[name] for name in member.topics if name in columns]
            chosen[member.topics] = np.array(found, dtype=np.int64)
        subscribed[at, chosen[member.topics]] = True
    if group.protocol is GroupProtocol.SHARE:
        return _most_shared_near(replicas, reading, row, topic.reshape(-1), here, subscribed)
    held = replicas.domain[replicas.at[row]]
    in_domains = np.column_stack([(held == domain).any(axis=1) for domain in domains])
    domain = np.where(here == NONE, NONE, np.searchsorted(domains, here))
    topic = topic.reshape(-1)
    readers = Readers(topic, replicas.partitions.number[row], in_domains, domain, subscribed)
    if group.assignor == _RANGE:
        return assign_ranges(readers).near
    if len({(at, wanted.tobytes()) for at, wanted in zip(domain.tolist(), subscribed, strict=True)}) <= _MOST_KINDS:
        return assign_evenly(readers).near
    reached = np.array([subscribed[domain == at].any(axis=0) for at in range(len(domains))])
    return int(np.count_nonzero((in_domains & reached.T[topic]).any(axis=1)))


def _most_shared_near(
    replicas: ReplicaPlaces, reading: IntArray, row: IntArray, topic: IntArray, here: IntArray, subscribed: BoolArray
) -> int:
    """Return an upper bound for what a share group can read near, with as many partitions per member as now.

    A member reads near at most its number of partitions, and at most the partitions near it. A partition that is near
    no member takes up one read. `subscribed` has the shape (members, topics).
    """
    _, first = np.unique(row, return_index=True)
    led = np.zeros((subscribed.shape[1], int(replicas.domain.max()) + 2), dtype=np.int64)
    np.add.at(led, (topic[first], replicas.domain[replicas.leader[row[first]]]), 1)
    led[:, NONE] = 0  # the last column counts partitions whose leader has no known domain
    near = (subscribed * led[:, here].T).sum(axis=1)
    has = np.bincount(reading, minlength=len(here))
    reached = sum(int(led[subscribed[here == domain].any(axis=0), domain].sum()) for domain in np.unique(here).tolist())
    return int(min(np.minimum(has, near).sum(), len(row) - (len(first) - reached)))


def _sum_of_known(rates: FloatArray, chosen: BoolArray) -> float | None:
    known = ~np.isnan(rates)
    return float(rates[known & chosen].sum()) if known.any() else None


def _in_order(tree: RackTree, values: Mapping[int, _T]) -> tuple[_T | None, ...]:
    """Return the values in the tree's depth-first order."""
    return tuple(values.get(broker) for broker in tree.ids.tolist())


def _agreed(reported: Sequence[str | None], racks: Sequence[RackPath | None]) -> dict[str, RackPath]:
    """Return the rack of the brokers that report each rack id, if all of them are in the same rack."""
    places: dict[str, set[RackPath]] = {}
    for rack_id, rack in zip(reported, racks, strict=True):
        if rack_id and rack:
            places.setdefault(rack_id, set()).add(rack)
    return {rack_id: next(iter(found)) for rack_id, found in places.items() if len(found) == 1}


def _beginnings(ids: Sequence[RackPath]) -> list[tuple[Mapping[RackPath, int], IntArray]]:
    """Return the first steps of rack ids, each with a number, and the number of each id's; then the first two, etc.

    The number of an id with fewer steps is `_NO_ID`.
    """
    found: list[tuple[Mapping[RackPath, int], IntArray]] = []
    for length in range(1, max(map(len, ids)) + 1):
        numbers: dict[RackPath, int] = {}
        begun = [numbers.setdefault(one[:length], len(numbers)) if len(one) >= length else _NO_ID for one in ids]
        found.append((numbers, np.array(begun, dtype=np.int64)))
    return found


def _steps(rack_id: str | None) -> RackPath:
    """Return a rack id as brokers compare it: an id that is not a path is one step; a missing id has no steps."""
    return rack_or_none(rack_id) or ((rack_id,) if rack_id else ())
