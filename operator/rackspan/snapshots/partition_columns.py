"""Conversion of decoded topics to columns, and the checks that concern more than one field.

Topics come in batches. The objects of one batch become arrays and are freed before the next batch is decoded. So a file
of millions of partitions needs memory for its text and its columns, but not for all its objects. numpy finds the first
row with an error; plain Python then explains the error.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter

import numpy as np
from msgspec import UNSET, UnsetType

from rackspan.core.snapshot import NONE, BrokerIds, Partitions
from rackspan.core.topology import BoolArray, IntArray
from rackspan.snapshots.schema import PartitionDocument, TopicDocument
from rackspan.snapshots.snapshot_errors import SnapshotFieldError

_number, _replicas, _isr = attrgetter("partition"), attrgetter("replicas"), attrgetter("isr")
_leader, _size_bytes = attrgetter("leader"), attrgetter("size_bytes")


MOST_REPLICAS = 256
"""The most replicas of one partition: rows are as wide as the longest list, so one long list could fill the memory."""


def columns(first: int, topics: Sequence[TopicDocument]) -> Partitions:
    """Check the partitions of `topics` and return them as columns; the first topic is `$.topics[first]`.

    The `names` of the columns stay empty. Raises SnapshotFieldError.
    """
    counts = np.fromiter((len(topic.partitions) for topic in topics), dtype=np.int64, count=len(topics))
    if not counts.all():
        empty = first + int(np.argmin(counts))
        raise SnapshotFieldError(f"$.topics[{empty}].partitions", "is empty; a topic has at least one partition")
    rows = [partition for topic in topics for partition in topic.partitions]
    starts = np.cumsum(counts) - counts
    topic = np.repeat(np.arange(len(counts)), counts)

    def explain(wrong: BoolArray) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            at = int(topic[row])
            _explain(f"$.topics[{first + at}].partitions[{row - int(starts[at])}]", rows[row])

    replica_lists = list(map(_replicas, rows))
    isr_lists = list(map(_isr, rows))
    if UNSET in isr_lists:
        isr_lists = [row.replicas if row.isr is UNSET else row.isr for row in rows]
    sizes, isr_sizes = _lengths(replica_lists), _lengths(isr_lists)
    explain((sizes == 0) | (sizes > MOST_REPLICAS) | (isr_sizes > sizes))
    replicas, isr = _padded(replica_lists, sizes), _padded(isr_lists, isr_sizes)
    in_sync, strangers = _matched(replicas, isr)
    leader = _leaders(rows)
    explain(_repeated(replicas) | strangers | _repeated(isr) | _not_among(leader, replicas))
    eligible = _eligible(rows, replicas, in_sync, explain)
    number = np.fromiter(map(_number, rows), dtype=np.int64, count=len(rows))
    order = _in_order(first, topics, topic, number, starts)
    found = Partitions((), topic + first, number, replicas, in_sync, eligible, leader, _sizes(rows))
    return found if order is None else found.rows(order)


def _lengths(lists: Sequence[list[int]]) -> IntArray:
    return np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))


def _padded(lists: Sequence[list[int]], lengths: IntArray) -> BrokerIds:
    """Return lists of broker ids as a matrix, padded with -1."""
    matrix = np.full((len(lists), int(lengths.max(initial=0))), NONE, dtype=np.int32)
    flat = np.fromiter(chain.from_iterable(lists), dtype=np.int32, count=int(lengths.sum()))
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = flat
    return matrix


def _matched(replicas: BrokerIds, isr: BrokerIds) -> tuple[BoolArray, BoolArray]:
    """Return which replicas are in the ISR, shape (n, w), and the rows whose ISR names a broker that is no replica."""
    in_sync = np.zeros(replicas.shape, dtype=bool)
    strangers = np.zeros(len(replicas), dtype=bool)
    for column in isr.T:
        same = (replicas == column[:, None]) & (column != NONE)[:, None]
        in_sync |= same
        strangers |= (column != NONE) & ~same.any(axis=1)
    return in_sync, strangers


def _eligible(
    rows: Sequence[PartitionDocument], replicas: BrokerIds, in_sync: BoolArray, explain: Callable[[BoolArray], None]
) -> BoolArray:
    """Return which replicas are eligible leaders, shape (n, w). Only few partitions have any."""
    some = [at for at, row in enumerate(rows) if row.elr is not UNSET and row.elr]
    eligible = np.zeros(replicas.shape, dtype=bool)
    if some:
        lists: list[list[int]] = [rows[at].elr for at in some]  # type: ignore[misc]
        wrong = np.zeros(len(rows), dtype=bool)
        wrong[some] = too_long = np.array([len(one) > replicas.shape[1] for one in lists])
        if not too_long.any():
            elr = _padded(lists, _lengths(lists))
            eligible[some], strangers = _matched(replicas[some], elr)
            wrong[some] = strangers | _repeated(elr) | (eligible & in_sync)[some].any(axis=1)
        explain(wrong)
    return eligible


def _leaders(rows: Sequence[PartitionDocument]) -> IntArray:
    try:
        return np.fromiter(map(_leader, rows), dtype=np.int64, count=len(rows))
    except TypeError:  # some are null, or left out
        given = (row.replicas[0] if row.leader is UNSET else _or_none(row.leader) for row in rows)
        return np.fromiter(given, dtype=np.int64, count=len(rows))


def _sizes(rows: Sequence[PartitionDocument]) -> IntArray:
    try:
        return np.fromiter(map(_size_bytes, rows), dtype=np.int64, count=len(rows))
    except TypeError:  # some are null, or left out
        return np.fromiter((_or_none(row.size_bytes) for row in rows), dtype=np.int64, count=len(rows))


def _or_none(value: int | UnsetType | None) -> int:
    return NONE if value is None or value is UNSET else value


def _repeated(brokers: BrokerIds) -> BoolArray:
    ordered = np.sort(brokers, axis=1)
    found: BoolArray = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NONE)).any(axis=1)
    return found


def _not_among(leader: IntArray, replicas: BrokerIds) -> BoolArray:
    found: BoolArray = (leader != NONE) & ~(replicas == leader[:, None]).any(axis=1)
    return found


def _explain(path: str, row: PartitionDocument) -> None:
    if not row.replicas:
        raise SnapshotFieldError(f"{path}.replicas", "is empty; a partition has at least one replica")
    if len(row.replicas) > MOST_REPLICAS:
        raise SnapshotFieldError(
            f"{path}.replicas",
            f"names {len(row.replicas):,} brokers; a partition has at most {MOST_REPLICAS:,} replicas",
        )
    for at, broker in enumerate(row.replicas):
        if broker in row.replicas[:at]:
            raise SnapshotFieldError(f"{path}.replicas[{at}]", f"broker {broker} is listed twice")
    isr = [] if row.isr is UNSET else row.isr
    for name, listed in (("isr", isr), ("elr", [] if row.elr is UNSET else row.elr)):
        for at, broker in enumerate(listed):
            if broker in listed[:at]:
                raise SnapshotFieldError(f"{path}.{name}[{at}]", f"broker {broker} is listed twice")
            if broker not in row.replicas:
                raise SnapshotFieldError(f"{path}.{name}[{at}]", f"broker {broker} is not a replica of this partition")
            if name == "elr" and broker in (row.replicas if row.isr is UNSET else isr):
                raise SnapshotFieldError(f"{path}.elr[{at}]", f"broker {broker} is in the ISR")
    raise SnapshotFieldError(f"{path}.leader", f"broker {row.leader} is not a replica of this partition")


def _in_order(
    first: int, topics: Sequence[TopicDocument], topic: IntArray, number: IntArray, starts: IntArray
) -> IntArray | None:
    """Return the order of the rows by number in each topic; None if they are sorted.

    Raises SnapshotFieldError if the numbers of a topic are not 0 to n - 1.
    """
    due = np.arange(len(number)) - starts[topic]
    if np.array_equal(number, due):
        return None
    order = np.lexsort((number, topic))
    wrong = number[order] != due
    if not wrong.any():
        return order
    at = int(topic[order[int(np.argmax(wrong))]])
    seen: set[int] = set()
    count = len(topics[at].partitions)
    for entry, partition in enumerate(topics[at].partitions):
        path = f"$.topics[{first + at}].partitions[{entry}].partition"
        if partition.partition in seen:
            raise SnapshotFieldError(path, f"partition {partition.partition} is listed twice")
        if partition.partition >= count:
            numbers = f"{count} partitions are numbered 0 to {count - 1}" if count > 1 else "only partition is number 0"
            raise SnapshotFieldError(path, f"is {partition.partition}, but the topic's {numbers}")
        seen.add(partition.partition)
    raise AssertionError("unreachable: n different numbers below n are 0 to n - 1")
