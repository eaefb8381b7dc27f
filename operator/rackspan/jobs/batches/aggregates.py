"""Sums over the results of judging and over rows of a history. Functions take tables and return tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rackspan.core.scanning.rules import COUNTING_RULES, SEVERITIES, TOPIC_RULES
from rackspan.core.write_locality import WriteCounts, WriteShares
from rackspan.jobs.batches.schemas import JUDGED, WRITE_COUNTS

_COUNTED: Final = ("excess", "moves")
_SUMMED: Final = ("partitions", "replicas", "non_compliant", "moves", "offline", "under_replicated", "bytes")
_MOVE_BYTES: Final = ("move_bytes", "sum", pc.ScalarAggregateOptions(skip_nulls=False))
_PLACES: Final = ("topic", "partition", "broker")
SHARES: Final = ("near", "near_by_rack", "could_be_near")
"""The fields of `core.write_locality.WriteShares`."""
_HELD: Final = ("replicas", "leaders", "leading", "bytes", "offline", "not_writable", "last_replica")
_RANKED: Final = pa.array([str(severity) for severity in SEVERITIES])


# --- a slice ----------------------------------------------------------------------------------------------------------


def findings(every: pa.Table) -> pa.Table:
    """Return each finding once, from the findings of several portions.

    A topic whose partitions were judged in several portions may have a finding in each. The finding with the largest
    absolute excess is taken, and of two that differ in sign the negative one. Their moves are summed up. Findings that
    count partitions are summed up, too.
    """
    names = JUDGED["findings"].names
    counting, every = counting_partitions(every)
    keys = [name for name in names if name not in _COUNTED]
    sums = grouped(counting, keys, [(name, "sum") for name in _COUNTED])
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
    return pa.concat_tables([each, topics, sums.select(names).cast(every.schema)])


def counting_partitions(every: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the findings that count partitions, which several slices may have, and the other findings."""
    counting = pc.is_in(every["rule"], pa.array([str(rule) for rule in COUNTING_RULES]))
    return every.filter(counting), every.filter(pc.invert(counting))


def topics(every: pa.Table) -> pa.Table:
    """Return each topic once, with the sums over its partitions."""
    least = [("replication_factor", "min"), ("min_insync", "max")]
    sums = grouped(every, ["topic"], [*((name, "sum") for name in _SUMMED), *least, _MOVE_BYTES])
    return sums.select(JUDGED["topics"].names)


def holdings(every: pa.Table) -> pa.Table:
    """Return what each domain of each level, and each broker, holds, and the effect of its loss.

    A portion that has no replica in a domain has 0 bytes there. Such a portion does not make the domain's size known.
    """
    measured = pc.and_(pc.is_valid(every["bytes"]), pc.greater(every["replicas"], 0)).cast(pa.int64())
    rows = every.append_column("measured", measured)
    sums = [("brokers", "max"), *((name, "sum") for name in (*_HELD, "measured"))]
    found = grouped(rows, ["level", "domain"], sums)
    unknown = pc.and_(pc.greater(found["replicas"], 0), pc.equal(found["measured"], 0))
    size = pc.if_else(unknown, pa.scalar(None, found["bytes"].type), found["bytes"])
    found = found.set_column(found.column_names.index("bytes"), "bytes", size)
    return found.select(JUDGED["holdings"].names)


def unfair(every: pa.Table) -> pa.Table:
    """Return `level` and `partitions`: how many partitions are split unfairly at that level."""
    return grouped(every, ["level"], [("partitions", "sum")])


def writes(every: pa.Table) -> pa.Table:
    """Return counts of writes by `topic` and `client_rack`."""
    return grouped(every, ["topic", "client_rack"], [(name, "sum") for name in ("partitions", *WRITE_COUNTS)])


# --- a scan -----------------------------------------------------------------------------------------------------------


def with_findings(topics: pa.Table, found: pa.Table) -> pa.Table:
    """Return topics with the number of `findings`, the `worst` severity, and the earliest `first_seen`."""
    about = found.filter(pc.is_valid(found["topic"]))
    wrong = counted(each(about), "topic")
    oldest = grouped(about, ["topic"], [("first_seen", "min")])
    names = topics["topic"]
    return (
        topics.append_column("findings", pc.fill_null(_looked_up(wrong, "topic", names, "findings"), 0))
        .append_column("worst", _looked_up(wrong, "topic", names, "worst"))
        .append_column("first_seen", _looked_up(oldest, "topic", names, "first_seen"))
    )


def each(found: pa.Table) -> pa.Table:
    """Return findings as rows for `counted`: `findings` is 1, and `worst` is the severity."""
    return found.append_column("findings", pa.repeat(1, len(found))).append_column("worst", found["severity"])


def counted(rows: pa.Table, *by: str) -> pa.Table:
    """Return the number of `findings` and the `worst` severity by the columns `by`, the last of which is not null."""
    about = rows.filter(pc.is_valid(rows[by[-1]]))
    ranked = about.set_column(about.column_names.index("worst"), "worst", _ranks(about["worst"]))
    sums = grouped(ranked, list(by), [("findings", "sum"), ("worst", "min")])
    return sums.set_column(len(by) + 1, "worst", _RANKED.take(sums["worst"].combine_chunks()))


def worst(found: pa.Table, most: int) -> pa.Table:
    """Return the worst findings, at most `most`. The order is total, so the result is always the same."""
    keys = {"rank": _ranks(found["severity"]), **{name: found[name] for name in ("rule", *_PLACES, "id")}}
    for name, first in zip(_PLACES, ("", -1, -1), strict=True):
        keys[name] = pc.fill_null(keys[name], first)
    return _first(found, pa.table(keys), dict.fromkeys(keys, "ascending"), most)


def worst_topics(topics: pa.Table, most: int) -> pa.Table:
    """Return at most `most` topics that have findings: by severity, then those with the most moves and findings."""
    wrong = topics.filter(pc.greater(topics["findings"], 0))
    keys = wrong.select(["moves", "findings", "topic"]).append_column("rank", _ranks(wrong["worst"]))
    order = {"rank": "ascending", "moves": "descending", "findings": "descending", "topic": "ascending"}
    return _first(wrong, keys, order, most)


def written_by_rack(writes: pa.Table) -> pa.Table:
    """Return `partitions` by `client_rack`, and each share as a number of partitions. `racks` sums up several parts."""
    shares = {name: pc.multiply(share, writes["partitions"]) for name, share in _shares(writes).items()}
    return racks(pa.table({"client_rack": writes["client_rack"], "partitions": writes["partitions"], **shares}))


def racks(written: pa.Table) -> pa.Table:
    """Return the sums of `written_by_rack` over several parts."""
    return grouped(written, ["client_rack"], [(name, "sum") for name in ("partitions", *SHARES)])


def written_by_topic(writes: pa.Table, producers: Mapping[str, int]) -> pa.Table:
    """Return `topic`, `partitions`, and the shares of all producers. `producers` is their number by rack."""
    weights = pa.array([producers[rack] for rack in writes["client_rack"].to_pylist()], pa.float64())
    rows = {name: pc.multiply(share, weights) for name, share in _shares(writes).items()}
    rows = {"topic": writes["topic"], "partitions": writes["partitions"], **rows}
    sums = grouped(pa.table(rows), ["topic"], [("partitions", "max"), *((name, "sum") for name in SHARES)])
    every = float(sum(producers.values()))
    shares = {name: pc.divide(sums[name], every) for name in SHARES}
    return pa.table({"topic": sums["topic"], "partitions": sums["partitions"], **shares})


def written_afar(topics: pa.Table, most: int) -> pa.Table:
    """Return at most `most` topics whose records leave the producers' domain, those with the most records first."""
    afar = topics.filter(pc.less(topics["near"], 1))
    far = pc.multiply(pc.subtract(1.0, afar["near"]), afar["partitions"])
    keys = pa.table({"far": far, "topic": afar["topic"]})
    return _first(afar, keys, {"far": "descending", "topic": "ascending"}, most)


def _shares(writes: pa.Table) -> dict[str, pa.Array]:
    of = {name: writes[name].to_numpy()[:, None] for name in WRITE_COUNTS}
    shares = WriteShares.of(WriteCounts(np.arange(len(writes)), writes["partitions"].to_numpy(), **of))
    return {name: pa.array(getattr(shares, name)[:, 0]) for name in SHARES}


# --- many scans -------------------------------------------------------------------------------------------------------


def days(scans: pa.Table) -> pa.Table:
    """Sum up the scans of each day (UTC), the first day first.

    Columns: `date`, `scans` (how many), `compliant_share` (mean over the scans, from 0 to 1), `findings` and `critical`
    (the most of any scan), `violation_minutes` (of all topics together).
    """
    return _over_time(scans, scans["finished_at"].cast(pa.date32()))


def hours(scans: pa.Table) -> pa.Table:
    """Sum up the scans of each hour (UTC), with the columns of `days`. `date` is the start of the hour."""
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
    return grouped(rows, ["date"], list(how.items())).sort_by("date")


def topic_minutes(parts: Iterable[pa.Table]) -> pa.Table:
    """Return `topic` and `violation_minutes`: how long it was out of compliance in all these parts of `topics`."""
    return _summed(parts, "topic", "violation_minutes", pa.float64())


def flaps(parts: Iterable[pa.Table]) -> pa.Table:
    """Return `broker` and `changed`: how often it went online or offline between two scans, in parts of `brokers`."""
    return _summed(parts, "broker", "changed", pa.int64())


# --- columns ----------------------------------------------------------------------------------------------------------


def grouped(rows: pa.Table, by: list[str], aggregates: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Aggregate columns, which keep their names. An aggregate is a name, a function, and options of Arrow, if any."""
    found = rows.group_by(by).aggregate(aggregates)
    return found.select([*by, *(f"{name}_{how}" for name, how, *_ in aggregates)]).rename_columns(
        [*by, *(name for name, *_ in aggregates)]
    )


def gathered(parts: Iterable[pa.Table], least: int) -> Iterator[pa.Table]:
    """Yield the same rows in parts of at least `least` rows, except for the last part. No part is empty."""
    held: list[pa.Table] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= least:
            yield pa.concat_tables(held)
            held = []
    if any(map(len, held)):
        yield pa.concat_tables(held)


def _summed(parts: Iterable[pa.Table], key: str, column: str, kind: pa.DataType) -> pa.Table:
    """Sum up part after part, so that only one part and the sums are in memory."""
    sums: pa.Table | None = None
    for part in parts:
        rows = pa.table({key: part[key], column: part[column].cast(kind)})
        sums = grouped(rows if sums is None else pa.concat_tables([sums, rows]), [key], [(column, "sum")])
    return sums if sums is not None else pa.table({key: [], column: pa.array([], kind)})


def _looked_up(rows: pa.Table, key: str, wanted: pa.ChunkedArray, column: str) -> pa.Array:
    """Return the value of `column` in the row with each `wanted` key, or null if there is no such row."""
    at = pc.index_in(wanted.combine_chunks(), rows[key].combine_chunks())
    return rows[column].combine_chunks().take(at)


def _ranks(severities: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.index_in(severities, _RANKED)


def _first(rows: pa.Table, keys: pa.Table, order: Mapping[str, str], most: int) -> pa.Table:
    """Return the first `most` rows, sorted by `keys`, which has the same rows."""
    return rows.take(pc.sort_indices(keys, list(order.items()))[:most])
