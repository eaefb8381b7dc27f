"""
The subscription of a member of a classic consumer group: its topics, and its rack.

Brokers keep it as bytes in the consumer's own format, `ConsumerProtocolSubscription` of Kafka's
`clients/src/main/resources/common/message`: a version, topics, user data, from version 1 the partitions owned, from 2
the generation, from 3 the rack id (KIP-881). Later versions only add to the end.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_WITH_OWNED_PARTITIONS, _WITH_GENERATION, _WITH_RACK = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics, None for a regular expression, and `client.rack`, None where it is not set or older than KIP-881."""

    topics: frozenset[str] | None
    rack: str | None = None


def read_subscription(metadata: bytes) -> Subscription | None:
    """Read a member's metadata; None where it is not in the format of `ConsumerProtocolSubscription`."""
    reader = _Reader(metadata)
    try:
        version = reader.int16()
        topics = frozenset(reader.string() or "" for _ in range(reader.count()))
        reader.skip(reader.int32())
        if version >= _WITH_OWNED_PARTITIONS:
            for _ in range(reader.count()):
                reader.string()
                reader.skip(4 * reader.count())
        if version >= _WITH_GENERATION:
            reader.int32()
        return Subscription(topics, (reader.string() or None) if version >= _WITH_RACK else None)
    except (struct.error, ValueError):
        return None


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = 0

    def int16(self) -> int:
        (value,) = struct.unpack_from(">h", self.data, self.at)
        self.at += 2
        return int(value)

    def int32(self) -> int:
        (value,) = struct.unpack_from(">i", self.data, self.at)
        self.at += 4
        return int(value)

    def count(self) -> int:
        """Length of a list, of which each entry takes at least two bytes."""
        count = self.int32()
        if count > len(self.data) // 2:
            raise ValueError("a list longer than the data")
        return max(count, 0)

    def skip(self, size: int) -> None:
        self.at += max(size, 0)
        if self.at > len(self.data):
            raise ValueError("the data ends early")

    def string(self) -> str | None:
        size = self.int16()
        start = self.at
        self.skip(size)
        return None if size < 0 else self.data[start : self.at].decode()
