"""Converts the core's columns to Arrow batches and tables, and back. Column names are those of `schemas`."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from rackspan.core.partitions import MOST_BYTES
from rackspan.core.scanning import BrokerLocations, Findings, Portion
from rackspan.core.scanning.findings import REASONS, RULES, SEVERITIES
from rackspan.core.scanning.portion import TopicTally
from rackspan.core.snapshot import NONE, Partitions
from rackspan.core.topology import IntArray
from rackspan.core.write_locality import WriteCounts
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.batches.schemas import JUDGED, PARTITIONS, WRITE_COUNTS

_LARGEST_BATCH = 1 << 16
_MAY_BE_UNKNOWN = ("bytes", "move_bytes")


def partition_batches(partitions: Partitions, min_insync: IntArray) -> Iterator[pa.RecordBatch]:
    """Yield partitions of whole topics as batches of PARTITIONS. `min_insync` (topics,) is `min.insync.replicas`."""
    fewest = partitions.fewest_replicas.astype(np.int32)
    names = pa.array(partitions.names, pa.string())
    known = np.maximum(partitions.size_bytes, 0).astype(np.float64)  # a sum of floats cannot wrap around
    plausible = partitions.replication_factor @ known <= MOST_BYTES
    for start in range(0, len(partitions), _LARGEST_BATCH):
        some = partitions.rows(np.arange(start, min(start + _LARGEST_BATCH, len(partitions))))
        held = some.replicas != NONE
        offsets = pa.array(np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int32))
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(some.topic.astype(np.int32)), names).cast(pa.string()),
            pa.array(some.number.astype(np.int32)),
            pa.ListArray.from_arrays(offsets, pa.array(some.replicas[held])),
            pa.ListArray.from_arrays(offsets, pa.array(some.in_sync[held])),
            pa.ListArray.from_arrays(offsets, pa.array(some.eligible[held])),
            pa.array(some.leader.astype(np.int32)),
            pa.array(some.size_bytes if plausible else np.full(len(some), NONE)),
            pa.array(min_insync[some.topic].astype(np.int32)),
            pa.array(fewest[some.topic]),
            pa.nulls(len(some), pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=PARTITIONS)


def unread_batches(unread: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield a batch of PARTITIONS with the topics that could not be read, each with the reason."""
    columns = {"topic": pa.array(list(unread), pa.string()), "unread": pa.array(list(unread.values()), pa.string())}
    arrays = [columns.get(field.name, pa.nulls(len(unread), field.type)) for field in PARTITIONS]
    yield pa.RecordBatch.from_arrays(arrays, schema=PARTITIONS)


def unread_topics(table: pa.Table) -> pa.Table:
    """Return the topics of rows of PARTITIONS that could not be read, with the reasons."""
    return pa.Table.from_arrays([table["topic"], table["unread"]], schema=JUDGED["unread"])


def partitions_of(table: pa.Table) -> tuple[Partitions, IntArray, IntArray]:
    """Return rows of PARTITIONS as columns, then `min_insync` and `fewest_replicas` by topic, shape (topics,) each."""
    topics = table.column("topic").combine_chunks().dictionary_encode()
    topic = topics.indices.to_numpy().astype(np.int64)
    replicas = _matrix(table.column("replicas").combine_chunks(), NONE, np.dtype(np.int32))
    in_sync, eligible = (
        _matrix(table.column(name).combine_chunks(), 0, np.dtype(bool)) for name in ("in_sync", "eligible")
    )
    min_insync, fewest = np.ones((2, len(topics.dictionary)), dtype=np.int64)
    min_insync[topic] = _numbers(table, "min_insync")
    fewest[topic] = _numbers(table, "fewest_replicas")
    return (
        Partitions(
            tuple(topics.dictionary.to_pylist()),
            topic,
            _numbers(table, "partition"),
            replicas,
            in_sync,
            eligible,
            _numbers(table, "leader"),
            _numbers(table, "size_bytes"),
        ),
        min_insync,
        fewest,
    )


def judged_portion(cluster: str, locations: BrokerLocations, names: tuple[str, ...], portion: Portion) -> Judged:
    """Return a portion as tables. `cluster` is Kafka's id of the cluster, `names` are the portion's topics."""
    totals = {name: [getattr(row, name) for row in portion.holdings] for name in JUDGED["holdings"].names}
    levels = {"level": list(portion.unfair), "partitions": list(portion.unfair.values())}
    return Judged.of(
        findings=finding_table(cluster, locations, names, portion.findings),
        topics=_topics(names, portion.topics),
        holdings=pa.Table.from_pydict(totals, schema=JUDGED["holdings"]),
        unfair=pa.Table.from_pydict(levels, schema=JUDGED["unfair"]),
    )


def finding_table(cluster: str, locations: BrokerLocations, names: tuple[str, ...], found: Findings) -> pa.Table:
    """Return findings as a table. `cluster` is Kafka's id of the cluster, `names` are the topics that they index."""
    columns = {
        "id": pa.array(found.ids(cluster, names, locations.tree)),
        "rule": _words(found.rule, tuple(map(str, RULES))),
        "severity": _words(found.severity, tuple(map(str, SEVERITIES))),
        "topic": _words(found.topic, names),
        "partition": _or_null(found.partition),
        "broker": _or_null(found.broker),
        "level": _words(found.level, (*locations.tree.levels, "broker")),
        "domain": pa.array(found.domains(locations.tree), pa.string()),
        "reason": _words(found.reason, REASONS),
        "excess": pa.array(found.excess.astype(np.int32)),
        "moves": pa.array(found.moves),
    }
    return _table("findings", columns)


def write_table(names: tuple[str, ...], racks: tuple[str, ...], counts: WriteCounts) -> pa.Table:
    """Return counts of writes as a table, one row per topic and `client.rack`. `names` are those of the topics."""
    columns = {
        "topic": _words(counts.topic.repeat(len(racks)), names),
        "client_rack": _words(np.tile(np.arange(len(racks)), len(counts.topic)), racks),
        "partitions": pa.array(counts.partitions.repeat(len(racks))),
        **{name: pa.array(getattr(counts, name).reshape(-1)) for name in WRITE_COUNTS},
    }
    return _table("writes", columns)


def _topics(names: tuple[str, ...], tally: TopicTally) -> pa.Table:
    counts = {one.name: getattr(tally, one.name) for one in fields(TopicTally) if one.name != "topic"}
    columns = {
        name: pa.array(column, mask=column == NONE if name in _MAY_BE_UNKNOWN else None)
        for name, column in counts.items()
    }
    return _table("topics", columns | {"topic": _words(tally.topic, names)})


def _table(name: str, columns: Mapping[str, pa.Array]) -> pa.Table:
    return pa.table(dict(columns)).select(JUDGED[name].names).cast(JUDGED[name])


def _words(codes: IntArray, words: tuple[str, ...]) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=codes == NONE)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string())).cast(pa.string())


def _or_null(numbers: IntArray) -> pa.Array:
    return pa.array(numbers.astype(np.int32), mask=numbers == NONE)


def _numbers(table: pa.Table, column: str) -> IntArray:
    numbers: IntArray = table.column(column).to_numpy().astype(np.int64)
    return numbers


def _matrix(lists: pa.ListArray, fill: int, kind: np.dtype[Any]) -> Any:
    """Return lists as a matrix, shape (lists, longest list), padded with `fill` on the right."""
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    width = int(lengths.max(initial=1))
    if len(lengths) * width == len(values):
        return values.astype(kind).reshape(len(lengths), width)
    matrix = np.full((len(lengths), width), fill, dtype=kind)
    matrix[np.arange(width) < lengths[:, None]] = values
    return matrix
