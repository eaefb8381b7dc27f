"""
The subscription of a member of a classic consumer group: its topics, and its rack.

Brokers keep the subscription as bytes in the consumer's own format, `ConsumerProtocolSubscription` of Kafka's
`clients/src/main/resources/common/message`, which has the rack id since version 3 (KIP-881).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription


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
    return Subscription(frozenset(topic or "" for topic in found.topics or ()), found.rack_id or None)
