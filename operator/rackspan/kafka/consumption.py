"""Bytes per second read from and written to each partition, sampled from the offsets of groups and of logs.

Kafka reports offsets of groups and logs, and the bytes of logs on disk. `core.consumers.rates` computes the rates.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as ConfluentPartition

from rackspan.core.consumers.group_locality import GroupProtocol
from rackspan.core.consumers.rates import bytes_per_offset, rates, written_rates
from rackspan.core.reassignment import TopicPartition
from rackspan.core.snapshot import NONE
from rackspan.kafka.admin import client, in_thread, parts
from rackspan.kafka.kafka_errors import failures_sentence
from rackspan.kafka.kafka_reassignments import KafkaReassignments

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rackspan.core.consumers.group_locality import GroupSeen, ReplicaPlaces
    from rackspan.core.consumers.rates import Offsets, RatesOf
    from rackspan.core.topology import FloatArray, IntArray

_CALL_SECONDS = 30.0
_GROUPS_AT_ONCE = 50
"""Groups requested in parallel: librdkafka accepts one group per call."""
_PARTITIONS_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class SampledRates:
    """The bytes per second of each partition in the table, shape (n,), NaN if not known.

    `rates_of` returns the bytes that a group reads (`core.consumers.rates`), `written` are those that producers write.
    `warnings` are about unknown data.
    """

    rates_of: RatesOf
    written: FloatArray
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """Committed offsets by group, and the time of the request in seconds. Groups without response are left out."""

    offsets: Mapping[str, Offsets]
    at: Mapping[str, float]


def sample_rates(
    properties: Mapping[str, str | int | bool],
    groups: Sequence[GroupSeen],
    replicas: ReplicaPlaces,
    wait: Callable[[], Awaitable[None]],
) -> SampledRates:
    """Return the rates from two samples of offsets. `wait` waits in between, for longer than the interval of commits.

    Share groups commit no offsets, so they have no rates. Raises FailureError if Kafka does not respond. A warning
    counts the groups that cannot be read, and names the first.
    """
    committing = [group for group in groups if group.members and group.protocol is not GroupProtocol.SHARE]
    return asyncio.run(
        _OffsetsAdmin.ask_new_client(properties, lambda admin: _sampled(admin, committing, replicas, wait))
    )


class _OffsetsAdmin(KafkaReassignments):
    @in_thread
    def committed(self, groups: Sequence[str]) -> tuple[_Look, dict[str, BaseException]]:
        """Return the offsets that groups have committed, and the errors of the other groups."""
        offsets: dict[str, Offsets] = {}
        at: dict[str, float] = {}
        failed: dict[str, BaseException] = {}
        for some in parts(groups, _GROUPS_AT_ONCE):
            answers: dict[str, Any] = {}
            asked = time.monotonic()
            for name in some:
                wanted = [ConsumerGroupTopicPartitions(name)]
                answers |= self._client.list_consumer_group_offsets(wanted, request_timeout=_CALL_SECONDS)
            for name, answer in self._answers(answers, _CALL_SECONDS).items():
                error = answer.exception()
                if error is not None:
                    failed[name] = error
                    continue
                offsets[name] = _offsets(answer.result())
                at[name] = asked
        return _Look(offsets, at), failed

    @in_thread
    def log_offsets(self, partitions: Sequence[TopicPartition], spec: Any) -> IntArray:
        """Return the first or the end offset of each log, depending on `spec`; -1 if it is not known."""
        found: dict[tuple[str, int], int] = {}
        for some in parts(partitions, _PARTITIONS_AT_ONCE):
            wanted = {ConfluentPartition(*at): spec for at in some}
            answers = self._client.list_offsets(wanted, request_timeout=_CALL_SECONDS)
            for at, answer in self._answers(answers, _CALL_SECONDS).items():
                if answer.exception() is None:
                    found[at.topic, at.partition] = answer.result().offset
        return np.array([found.get((at.topic, at.partition), NONE) for at in partitions], dtype=np.int64)


async def _sampled(
    admin: _OffsetsAdmin,
    groups: Sequence[GroupSeen],
    replicas: ReplicaPlaces,
    wait: Callable[[], Awaitable[None]],
) -> SampledRates:
    names = [group.name for group in groups]
    table = replicas.partitions
    rows = np.flatnonzero(table.leader != NONE)
    partitions = [TopicPartition(table.names[table.topic[row]], int(table.number[row])) for row in rows.tolist()]
    before, unread = await admin.committed(names)
    began, first = time.monotonic(), await admin.log_offsets(partitions, client.OffsetSpec.latest())
    await wait()
    after, failed = await admin.committed([name for name in names if name in before.at])
    seconds, last = time.monotonic() - began, await admin.log_offsets(partitions, client.OffsetSpec.latest())
    mean = await _bytes_per_offset(admin, partitions, table.leader[rows].tolist(), last)
    per_offset, written = np.full((2, len(table)), np.nan)
    per_offset[rows] = mean
    written[rows] = written_rates(first, last, seconds, mean)

    def rates_of(group: str) -> FloatArray | None:
        if group not in after.offsets:
            return None
        apart = after.at[group] - before.at[group]
        return rates(replicas, before.offsets[group], after.offsets[group], apart, per_offset)

    return SampledRates(
        rates_of, written, tuple(failures_sentence("groups whose offsets could not be read", unread | failed))
    )


async def _bytes_per_offset(
    admin: _OffsetsAdmin, partitions: Sequence[TopicPartition], leaders: Sequence[int], ends: IntArray
) -> FloatArray:
    """Return the mean bytes per offset of the leaders' logs, whose end offsets are `ends`."""
    sizes = await admin.sizes({at: [leader] for at, leader in zip(partitions, leaders, strict=True)})
    return bytes_per_offset(
        await admin.log_offsets(partitions, client.OffsetSpec.earliest()),
        ends,
        np.array([sizes.get(of, NONE) for of in zip(partitions, leaders, strict=True)], dtype=np.int64),
    )


def _offsets(answer: Any) -> Offsets:
    return {
        (one.topic, one.partition): one.offset
        for one in answer.topic_partitions
        if one.error is None and one.offset >= 0
    }
