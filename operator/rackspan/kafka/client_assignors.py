"""The rack-aware `range` assignor of the classic protocol (KIP-881), for kafka-python consumers.

    KafkaConsumer("orders", group_id="shop", client_rack=rack, partition_assignment_strategy=[RackAwareRange(rack)])

Its name is `range`, and it sends the rack like Java consumers since Kafka 3.5. So both can be in one group, and either
can lead it and assign by racks. The leader assigns: Java consumers by their own rules, this one by `assign_ranges`,
which is optimal. A replica is near if its `broker.rack` is exactly the member's rack id.
"""

from __future__ import annotations

import logging
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from kafka import TopicPartition
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from rackspan.core.consumers.assignors import Readers, assign_ranges

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

_LOG = logging.getLogger(__name__)
_SUBSCRIPTION = 3  # the first version that carries a rack id
_ASSIGNMENT = 0


class RackAwareRange(AbstractPartitionAssignor):  # type: ignore[misc]
    """Rack-aware `range`: divides each topic evenly, co-partitioned topics together, as near as that allows."""

    name = "range"

    def __init__(self, rack: str | None = None) -> None:
        """`rack` must be the same as the consumer's `client_rack`; None or empty if the consumer has no rack."""
        self._rack = rack or None

    def metadata(self, topics: Iterable[str]) -> Any:
        """Return the metadata that a member sends to the group leader."""
        return ConsumerProtocolSubscription(
            version=_SUBSCRIPTION, topics=sorted(topics), user_data=b"", owned_partitions=[], rack_id=self._rack
        )

    def assign(self, cluster: Any, members: Sequence[Any]) -> Mapping[str, Any]:
        """Return the assignments by member id. Topics that are not (yet) in the cluster's metadata are left out."""
        # As in Java, static members come first, because they stay in the group when others join and leave.
        found = sorted(members, key=lambda m: (m.group_instance_id is None, m.group_instance_id or m.member_id))
        wanted = sorted({topic for member in found for topic in member.metadata.topics})
        topics = [topic for topic in wanted if cluster.partitions_for_topic(topic)]
        if len(topics) < len(wanted):
            _LOG.warning("no partitions are known of topics that are subscribed to: %d", len(wanted) - len(topics))
        rows = [
            (at, number) for at, topic in enumerate(topics) for number in sorted(cluster.partitions_for_topic(topic))
        ]
        shares: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in found}
        if rows:
            owners = assign_ranges(_readers(cluster, found, topics, rows)).owner.tolist()
            for (at, number), owner in zip(rows, owners, strict=True):
                shares[found[owner].member_id].setdefault(topics[at], []).append(number)
        return {
            member: ConsumerProtocolAssignment(_ASSIGNMENT, sorted(share.items()), b"")
            for member, share in shares.items()
        }

    def on_assignment(self, assignment: Any, generation: int) -> None:
        """Do nothing: the assignor keeps no state."""


def _readers(cluster: Any, members: Sequence[Any], topics: Sequence[str], rows: Sequence[tuple[int, int]]) -> Readers:
    brokers = sorted((broker.rack, broker.node_id) for broker in cluster.brokers() if broker.rack)
    racks = {rack: [broker for _, broker in some] for rack, some in groupby(brokers, key=lambda one: one[0])}
    places = {rack: number for number, rack in enumerate(racks)}
    partitions = [TopicPartition(topics[at], number) for at, number in rows]
    near = [[_has_any(cluster, partition, some) for some in racks.values()] for partition in partitions]
    # A member with an older client reports no rack.
    reported = [getattr(member.metadata, "rack_id", None) for member in members]
    subscriptions = [frozenset(member.metadata.topics) for member in members]
    topic, number = np.array(rows, dtype=np.int64).T
    return Readers(
        topic=topic,
        number=number,
        near=np.array(near, dtype=bool),
        domain=np.array([places.get(rack, -1) if rack else -1 for rack in reported], dtype=np.int64),
        subscribed=np.array([[topic in wanted for topic in topics] for wanted in subscriptions], dtype=bool),
    )


def _has_any(cluster: Any, partition: TopicPartition, brokers: Collection[int]) -> bool:
    return any(cluster.is_replica_node(partition, broker) is not None for broker in brokers)
