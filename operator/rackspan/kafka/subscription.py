"""The subscription of a member of a classic consumer group: its topics, and its rack.

Brokers keep the subscription as bytes in the consumer's own format, `ConsumerProtocolSubscription` of Kafka's
`clients/src/main/resources/common/message`, which has the rack id since version 3 (KIP-881).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from rackspan.core.partitions import is_topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics, None for a regular expression, and `client.rack`, None if not set or if the client predates KIP-881."""

    topics: frozenset[str] | None
    rack: str | None = None


def read_subscription(metadata: bytes) -> Subscription | None:
    """Return the subscription in a member's metadata, or None if its format is not `ConsumerProtocolSubscription`."""
    try:
        found = ConsumerProtocolSubscription.decode(metadata)
    except (struct.error, ValueError):
        return None
    return Subscription(topic_names(found.topics or ()), found.rack_id or None)


def topic_names(named: Iterable[object]) -> frozenset[str]:
    """Return the names that Kafka accepts. Members send any text, and librdkafka refuses a whole call for some."""
    return frozenset(filter(is_topic_name, named))
