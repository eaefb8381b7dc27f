"""Snapshots of a live cluster, read with the same client as in the operator.

Replicas, ISR and leaders come from Kafka's metadata, racks from DescribeCluster, and the rest from configurations.
Another client reads the sizes of partitions, only if they are needed. It also lists reassignments, because replicas
that are being added do not count: before the metadata and after, because a reassignment may end in between.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.partitions import ReassignedReplicas, TopicPartition, largest, present_replicas
from rackspan.core.snapshot import Snapshot, table
from rackspan.core.text import be, plural
from rackspan.core.topology import BrokerLocation
from rackspan.kafka.admin import ConfluentAdmin, config_seen, in_thread, parts
from rackspan.kafka.kafka_errors import failure_of, is_unknown_topic
from rackspan.kafka.kafka_reassignments import KafkaReassignments
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.ports import TopicConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from rackspan.core.snapshot import Partitions
    from rackspan.reconcile.ports import ClusterDescription

_CONFIGS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """A snapshot, and warnings about data that could not be read."""

    snapshot: Snapshot
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LivePortion:
    """Some topics of a cluster. `unread` has the topics that could not be read completely, with the reasons."""

    snapshot: Snapshot
    unread: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClusterOutline:
    """A cluster with its topics' names and the number of all partitions, but without details and cordons."""

    cluster_id: str
    brokers: tuple[BrokerLocation, ...]
    topics: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """The partitions that are being reassigned, and a warning if there are any or they are not `known`."""

    reassigned: Mapping[TopicPartition, ReassignedReplicas]
    warnings: tuple[str, ...]
    known: bool = True


def take_snapshot(
    properties: Mapping[str, str | int | bool], advance: Callable[[int, int], None] | None = None
) -> LiveSnapshot:
    """
    Return a snapshot of a cluster. `advance` receives the numbers of topics whose configs are read and of all topics.

    Raises FailureError if `properties` are invalid, or if Kafka does not respond or refuses.
    """
    progress = advance or (lambda _done, _all: None)
    return asyncio.run(_SnapshotAdmin.ask_new_client(properties, lambda admin: _taken(admin, progress)))


def take_outline(properties: Mapping[str, str | int | bool]) -> ClusterOutline:
    """Return only the cluster's id, brokers, topic names and number of partitions. Raises like `take_snapshot`."""
    return asyncio.run(_SnapshotAdmin.ask_new_client(properties, _outlined))


def take_portion(properties: Mapping[str, str | int | bool], names: Sequence[str]) -> LivePortion:
    """Return only some topics, without brokers. Topics that do not exist are left out. Raises like `take_snapshot`."""
    return asyncio.run(_SnapshotAdmin.ask_new_client(properties, lambda admin: _portion(admin, names)))


def reassignment_warnings(properties: Mapping[str, str | int | bool]) -> tuple[str, ...]:
    """Return the warning of `take_snapshot` about reassignments, for a cluster that is read in portions."""
    return asyncio.run(_SnapshotAdmin.ask_new_client(properties, _under_way)).warnings


def take_sizes(
    properties: Mapping[str, str | int | bool], holders: Mapping[TopicPartition, Collection[int]]
) -> Mapping[TopicPartition, int]:
    """Return the bytes of each partition's largest replica, from the brokers in `holders` (DescribeLogDirs, KIP-113).

    Partitions are left out if no broker reports their size: brokers are offline, or deny Describe on the cluster. Never
    raises, because callers can work without sizes.
    """
    with suppress(FailureError):
        return largest(asyncio.run(KafkaReassignments.ask_new_client(properties, lambda admin: admin.sizes(holders))))
    return {}


async def _under_way(admin: _SnapshotAdmin) -> _UnderWay:
    """Return which partitions are being reassigned. If that cannot be read, return none, and a warning."""
    try:
        found = await admin.reassigned()
    except FailureError as error:
        unknown = "which partitions are being reassigned is not known, so a replica that is being added counts as there"
        return _UnderWay({}, (f"{unknown}: {error}",), known=False)
    if not found:
        return _UnderWay({}, ())
    count, it = plural(len(found), "partition"), "it" if len(found) == 1 else "them"
    sentence = (
        f"{count} {be(len(found))} being reassigned, and taken without the replicas that are being added; "
        f"rackspan apply does not move {it} until that has ended or is cancelled"
    )
    return _UnderWay(found, (sentence,))


class _SnapshotAdmin(ConfluentAdmin):
    async def reassigned(self) -> Mapping[TopicPartition, ReassignedReplicas]:
        """Return the partitions that are being reassigned. Raises FailureError if they cannot be listed."""
        return await self._run(lambda: self._python_connection().reassigned())

    async def eligible(self, topics: Collection[str]) -> Mapping[TopicPartition, frozenset[int]]:
        """Return the replicas outside the ISR that can lead without data loss, for topics with a leaderless partition.

        The result is empty if Kafka does not report them: it is older than 4.0, or does not respond.
        """
        with suppress(FailureError):
            return await self._run(lambda: self._python_connection().eligible(list(topics))) if topics else {}
        return {}

    async def metadata(self) -> Mapping[str, Any]:
        """Return the TopicMetadata of all topics by name."""
        return await self._run(self._metadata)

    @in_thread
    def described(self, names: Sequence[str]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Return TopicDescriptions, and the reasons of unread topics, by name. Deleted topics are in neither."""
        return _sorted_out(self._described(names))

    @in_thread
    def configured(self, names: Sequence[str]) -> tuple[Mapping[str, TopicConfig], Mapping[str, str]]:
        """Return configurations, and the reasons of unread topics, by name. Deleted topics are in neither."""
        if not names:
            return {}, {}
        found, unread = _sorted_out(self._configured(names))
        return {name: config_seen(entries) for name, entries in found.items()}, unread


async def _taken(admin: _SnapshotAdmin, advance: Callable[[int, int], None]) -> LiveSnapshot:
    cluster = await admin.cluster()
    before = await _under_way(admin)
    topics = {name: topic for name, topic in sorted((await admin.metadata()).items()) if topic.partitions}
    after = await _under_way(admin) if before.known else before
    configs: dict[str, TopicConfig] = {}
    for done, names in enumerate(parts(list(topics), _CONFIGS_AT_ONCE)):
        found = await admin.configs(names)
        configs |= {name: one for name, one in found.items() if isinstance(one, TopicConfig)}
        advance(done * _CONFIGS_AT_ONCE + len(names), len(topics))
    cordoned = await admin.cordoned([broker.id for broker in cluster.brokers])
    known = tuple(topics)
    seen = (
        (at, number, one.replicas, set(one.isrs), one.leader if one.leader >= 0 else None)
        for at, topic in enumerate(topics.values())
        for number, one in topic.partitions.items()
    )
    snapshot = Snapshot(
        cluster.cluster_id,
        _brokers(cluster, cordoned),
        await _table(admin, known, seen, before, after),
        tuple(_config(configs.get(name)) for name in known),
        tuple(_inherited(configs.get(name)) for name in known),
    )
    warnings = [*after.warnings]
    if snapshot.unknown_brokers:
        ids = ", ".join(map(str, snapshot.unknown_brokers))
        many = len(snapshot.unknown_brokers) > 1
        warnings.append(f"broker{'s' if many else ''} {ids} hold{'' if many else 's'} replicas and did not answer")
    unread = len(topics) - len(configs)
    if unread:
        warnings.append(
            f"the configuration of {plural(unread, 'topic')} could not be read; min.insync.replicas is taken "
            "to be 1 there"
        )
    return LiveSnapshot(snapshot, tuple(warnings))


async def _outlined(admin: _SnapshotAdmin) -> ClusterOutline:
    cluster = await admin.cluster()
    topics = await admin.metadata()
    partitions = sum(len(topic.partitions) for topic in topics.values())
    return ClusterOutline(cluster.cluster_id, _brokers(cluster, {}), tuple(sorted(topics)), partitions)


def _sorted_out(answers: Mapping[str, Future[Any]]) -> tuple[dict[str, Any], dict[str, str]]:
    errors = {name: error for name, answer in answers.items() if (error := answer.exception()) is not None}
    found = {name: answer.result() for name, answer in answers.items() if name not in errors}
    unread = {name: failure_of(error).message for name, error in errors.items() if not is_unknown_topic(error)}
    return found, unread


async def _portion(admin: _SnapshotAdmin, names: Sequence[str]) -> LivePortion:
    described: dict[str, Any] = {}
    configs: dict[str, TopicConfig] = {}
    unread: dict[str, str] = {}
    before = await _under_way(admin)
    for some in parts(names, _CONFIGS_AT_ONCE):
        found, unseen = await admin.described(some)
        described |= found
        unread |= unseen
    after = await _under_way(admin) if before.known else before
    for some in parts(list(described), _CONFIGS_AT_ONCE):
        configured, unknown = await admin.configured(some)
        configs |= configured
        unread |= unknown
    topics = {name: described[name] for name in described if name in configs}
    known = tuple(topics)
    seen = (
        (at, one.id, _ids(one.replicas), set(_ids(one.isr)), one.leader.id if one.leader else None)
        for at, topic in enumerate(topics.values())
        for one in topic.partitions
    )
    partitions = await _table(admin, known, seen, before, after)
    return LivePortion(Snapshot(None, (), partitions, tuple(_config(configs[name]) for name in known)), unread)


async def _table(
    admin: _SnapshotAdmin,
    names: Sequence[str],
    seen: Iterable[tuple[int, int, Sequence[int], Collection[int], int | None]],
    before: _UnderWay,
    after: _UnderWay,
) -> Partitions:
    """Build the columns from rows of topic index, partition number, replicas, ISR and leader.

    `before` and `after` are the reassignments before and after the rows were read.
    """
    rows = [
        (at, number, _present(TopicPartition(names[at], number), replicas, before, after), isr, leader, None)
        for at, number, replicas, isr, leader in seen
    ]
    return table(names, rows, await admin.eligible({names[at] for at, _, _, _, leader, _ in rows if leader is None}))


def _present(at: TopicPartition, replicas: Sequence[int], before: _UnderWay, after: _UnderWay) -> tuple[int, ...]:
    """Return the replicas without those that were being added. A row with removed replicas is from before the end."""
    now, ended = after.reassigned.get(at), before.reassigned.get(at)
    if now is not None and not now.adding.isdisjoint(replicas):
        return present_replicas(replicas, now.adding)
    if ended is not None and not ended.removing.isdisjoint(replicas):
        return present_replicas(replicas, ended.adding)
    return tuple(replicas)


def _ids(nodes: Iterable[Any]) -> list[int]:
    return [node.id for node in nodes]


def _brokers(cluster: ClusterDescription, cordoned: Mapping[int, bool | None]) -> tuple[BrokerLocation, ...]:
    return tuple(
        BrokerLocation(broker.id, broker.rack or None, cordoned=cordoned.get(broker.id) is True)
        for broker in cluster.brokers
    )


def _config(seen: TopicConfig | None) -> Mapping[str, str]:
    """Return the configs set on the topic itself, and the effective min.insync.replicas."""
    if seen is None:
        return {}
    return {**seen.own, **({} if seen.min_insync is None else {MIN_INSYNC: str(seen.min_insync)})}


def _inherited(seen: TopicConfig | None) -> frozenset[str]:
    """Return the keys whose value comes from the brokers: min.insync.replicas or none."""
    inherits = seen is not None and seen.min_insync is not None and MIN_INSYNC not in seen.own
    return frozenset({MIN_INSYNC}) if inherits else frozenset()
