"""Findings, topics and domains from judged rows; trends from rows of a history. Functions are from table to table."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rackspan.core.scanning.rules import COUNTING_RULES, SEVERITIES, TOPIC_RULES
from rackspan.jobs.batches.schemas import FINDING_COLUMNS, TABLES, WRITE_COUNTS

_NAMES: Final = [name for name, _ in FINDING_COLUMNS]
_COUNTED: Final = ("excess", "moves")
_SUMMED: Final = ("partitions", "replicas", "non_compliant", "moves", "offline", "under_replicated", "bytes")
_MOVE_BYTES: Final = ("move_bytes", "sum", pc.ScalarAggregateOptions(skip_nulls=False))
_HELD: Final = ("replicas", "leaders", "leading", "bytes", "offline", "not_writable", "last_replica")
_RANKED: Final = pa.array([str(severity) for severity in SEVERITIES])
_TIME: Final = TABLES["findings"].field("first_seen").type


# --- one scan ---------------------------------------------------------------------------------------------------------


def findings(judged: pa.Table) -> pa.Table:
    """
    Findings, each once, from judged rows of that kind.

    A topic whose partitions were judged in several portions has a finding in each: that with the largest absolute
    excess is taken, and of two that differ in sign the negative one; their moves are added up, as are findings that
    count partitions.
    """
    every = judged.select(_NAMES)
    counting = pc.is_in(every["rule"], pa.array([str(rule) for rule in COUNTING_RULES]))
    keys = [name for name in _NAMES if name not in _COUNTED]
    sums = _grouped(every.filter(counting), keys, [(name, "sum") for name in _COUNTED])
    every = every.filter(pc.invert(counting))
    about_topics = pc.is_in(every["rule"], pa.array([str(rule) for rule in TOPIC_RULES]))
    topics = every.filter(about_topics)
    ids, excess = topics["id"].to_numpy(), topics["excess"].to_numpy()
    order = np.lexsort((excess, -np.abs(excess), ids))
    each_id, first, of_id = np.unique(ids[order], return_index=True, return_inverse=True)
    moves = np.zeros(len(each_id), dtype=np.int64)
    np.add.at(moves, of_id, topics["moves"].to_numpy()[order])
    topics = topics.take(order[first])
    topics = topics.set_column(topics.column_names.index("moves"), topics.schema.field("moves"), pa.array(moves))
    each = every.filter(pc.invert(about_topics))
    return pa.concat_tables([each, topics, sums.select(_NAMES).cast(every.schema)])


def with_first_seen(found: pa.Table, before: pa.Table, observed: datetime) -> pa.Table:
    """
    Add `first_seen` and `new` to findings.

    `first_seen` is that of the previous scan's findings in `before` where they have the same id, else `observed`.
    """
    known = _looked_up(before, "id", found["id"], "first_seen")
    since = pc.coalesce(known, pa.scalar(observed, _TIME))
    return found.append_column("first_seen", since).append_column("new", pc.is_null(known))


def cleared(before: pa.Table, found: pa.Table) -> pa.Table:
    """The previous scan's findings that are not among those `found`."""
    return before.filter(pc.invert(pc.is_in(before["id"], found["id"].combine_chunks())))


def topics(judged: pa.Table, found: pa.Table) -> pa.Table:
    """Topics with the sums over their partitions, the number of their findings, and the worst severity."""
    least = [("replication_factor", "min"), ("min_insync", "max")]
    tallied = _grouped(judged, ["topic"], [*((name, "sum") for name in _SUMMED), *least, _MOVE_BYTES])
    wrong = counted(found, "topic")
    findings = pc.fill_null(_looked_up(wrong, "topic", tallied["topic"], "findings"), 0)
    worst = _looked_up(wrong, "topic", tallied["topic"], "worst")
    return tallied.append_column("findings", findings).append_column("worst", worst)


def holdings(judged: pa.Table) -> pa.Table:
    """
    What each domain of each level, and each broker, holds, and what its loss would do.

    A portion of which nothing lies in a domain has 0 bytes there, which says nothing of the size of what does.
    """
    measured = pc.and_(pc.is_valid(judged["bytes"]), pc.greater(judged["replicas"], 0)).cast(pa.int64())
    rows = judged.append_column("measured", measured)
    sums = [("brokers", "max"), *((name, "sum") for name in (*_HELD, "measured"))]
    found = _grouped(rows, ["level", "domain"], sums)
    unknown = pc.and_(pc.greater(found["replicas"], 0), pc.equal(found["measured"], 0))
    size = pc.if_else(unknown, pa.scalar(None, found["bytes"].type), found["bytes"])
    return found.set_column(found.column_names.index("bytes"), "bytes", size).drop_columns(["measured"])


def unfair(judged: pa.Table) -> pa.Table:
    """`level` and `partitions`: how many partitions are split unfairly there."""
    return _grouped(judged, ["level"], [("partitions", "sum")])


def writes(judged: pa.Table) -> pa.Table:
    """Counts of writes by topic and `client_rack`, in this order."""
    keys = ["topic", "client_rack"]
    sums = [(name, "sum") for name in ("partitions", *WRITE_COUNTS)]
    return _grouped(judged, keys, sums).sort_by([(key, "ascending") for key in keys])


def counts(found: pa.Table) -> pa.Table:
    """The number of findings by rule and severity, in `count`."""
    return _grouped(found.append_column("count", found["id"]), ["rule", "severity"], [("count", "count")])


def counted(found: pa.Table, *by: str) -> pa.Table:
    """The columns `by`, the number of findings with these values, and the worst severity; none for nulls."""
    about = found.filter(pc.is_valid(found[by[-1]]))
    ranked = about.append_column("findings", about["id"]).append_column("worst", _ranks(about))
    sums = _grouped(ranked, list(by), [("findings", "count"), ("worst", "min")])
    return sums.set_column(len(by) + 1, "worst", _RANKED.take(sums["worst"].combine_chunks()))


def worst(found: pa.Table, most: int) -> pa.Table:
    """At most `most` findings, by severity; the order is total, so the same ones are taken every time."""
    keys = {"rank": _ranks(found), **{name: found[name] for name in ("rule", "topic", "partition", "broker", "id")}}
    for name, first in (("topic", ""), ("partition", -1), ("broker", -1)):
        keys[name] = pc.fill_null(keys[name], first)
    return found.take(pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])[:most])


# --- many scans -------------------------------------------------------------------------------------------------------


def days(scans: pa.Table) -> pa.Table:
    """
    Sum up each day (UTC), the first day first.

    Columns: `date`, `scans` (how many), `compliant_share` (mean over the scans, from 0 to 1), `findings` and `critical`
    (the most of any scan), `violation_minutes` (of all topics together).
    """
    return _over_time(scans, scans["finished_at"].cast(pa.date32()))


def hours(scans: pa.Table) -> pa.Table:
    """Sum up each hour (UTC) in the same way; `date` is when it began."""
    return _over_time(scans, pc.floor_temporal(scans["finished_at"], unit="hour"))


def _over_time(scans: pa.Table, date: pa.ChunkedArray) -> pa.Table:
    partitions = pc.max_element_wise(scans["partitions"], 1)
    rows = pa.table(
        {
            "date": date,
            "scans": pa.array([1] * len(scans), pa.int64()),
            "compliant_share": pc.subtract(1.0, pc.divide(scans["non_compliant"].cast(pa.float64()), partitions)),
            **{name: scans[name] for name in ("findings", "critical", "violation_minutes")},
        }
    )
    how = {"scans": "sum", "compliant_share": "mean", "findings": "max", "critical": "max", "violation_minutes": "sum"}
    return _grouped(rows, ["date"], list(how.items())).sort_by("date")


def topic_minutes(parts: Iterable[pa.Table]) -> pa.Table:
    """`topic` and `violation_minutes`: how long it was out of compliance in all these parts of `topics`."""
    return _summed(parts, "topic", "violation_minutes", pa.float64())


def flaps(parts: Iterable[pa.Table]) -> pa.Table:
    """`broker` and `changed`: how often it came or went between two scans, in all these parts of `brokers`."""
    return _summed(parts, "broker", "changed", pa.int64())


def first_seen(findings: pa.Table) -> pa.Table:
    """`topic` and `first_seen`: when the oldest of its findings was first seen."""
    return _grouped(findings.filter(pc.is_valid(findings["topic"])), ["topic"], [("first_seen", "min")])


# --- columns ----------------------------------------------------------------------------------------------------------


def _summed(parts: Iterable[pa.Table], key: str, column: str, kind: pa.DataType) -> pa.Table:
    """Sum up part after part: no more than one of them and the sums are in memory."""
    sums: pa.Table | None = None
    for part in parts:
        rows = pa.table({key: part[key], column: part[column].cast(kind)})
        sums = _grouped(rows if sums is None else pa.concat_tables([sums, rows]), [key], [(column, "sum")])
    return sums if sums is not None else pa.table({key: [], column: pa.array([], kind)})


def _grouped(rows: pa.Table, by: list[str], aggregates: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Aggregate columns, which keep their names. An aggregate is a name, how, and options of Arrow's if it has any."""
    found = rows.group_by(by).aggregate(aggregates)
    return found.select([*by, *(f"{name}_{how}" for name, how, *_ in aggregates)]).rename_columns(
        [*by, *(name for name, *_ in aggregates)]
    )


def _looked_up(rows: pa.Table, key: str, wanted: pa.ChunkedArray, column: str) -> pa.Array:
    """The values of `column` in those `rows` whose key is `wanted`, null where there is none."""
    at = pc.index_in(wanted.combine_chunks(), rows[key].combine_chunks())
    return rows[column].combine_chunks().take(at)


def _ranks(found: pa.Table) -> pa.ChunkedArray:
    return pc.index_in(found["severity"], _RANKED)
