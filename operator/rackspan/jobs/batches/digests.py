"""Digests of findings and topics that a scan has written already: their sums, and the worst of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import pyarrow as pa
import pyarrow.compute as pc

from rackspan.core.scanning.rules import Rule
from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.aggregates import grouped
from rackspan.jobs.batches.judged import Judged
from rackspan.reports.document import MAX_CHANGED, MAX_FINDINGS, MAX_TOPICS, MAX_WRITES

_NUMBERS = ("partitions", "replicas", "non_compliant", "offline", "under_replicated", "moves", "violation_minutes")


@dataclass(frozen=True, slots=True)
class Digest:
    """The digest of a part of a scan. Its size does not depend on the number of partitions.

    `totals` is one row: sums over topics, with `topics` and `non_compliant_topics`. `counts` has the number of
    `findings` and of `new` ones, and the earliest `first_seen`, by rule and severity. `by_broker` and `by_domain` are
    results of `aggregates.counted`. `findings`, `new` and `topics` are the worst ones. `away` has every `broker` that
    is offline and holds replicas. `holdings` and `unfair` are those of `Judged`, `writes_by_rack` is the result of
    `aggregates.written_by_rack`, and `writes` has the rows of `aggregates.written_by_topic` in `written_afar`.
    """

    totals: pa.Table
    counts: pa.Table
    by_broker: pa.Table
    by_domain: pa.Table
    findings: pa.Table
    new: pa.Table
    away: pa.Table
    topics: pa.Table
    holdings: pa.Table
    unfair: pa.Table
    writes_by_rack: pa.Table
    writes: pa.Table


def digest(judged: Judged, found: pa.Table, topics: pa.Table, producers: Mapping[str, int]) -> Digest:
    """Return the digest of a part of a scan.

    `found` are its findings, with `first_seen` and `new`. `topics` are its topics, with `findings`, `worst`,
    `first_seen` and `violation_minutes`. Of `judged`, only `holdings`, `unfair` and `writes` are used.
    """
    each = aggregates.each(found)
    wrong = pc.greater(topics["non_compliant"], 0).cast(pa.int64())
    totals = topics.append_column("topics", pa.repeat(1, len(topics))).append_column("non_compliant_topics", wrong)
    part = Digest(
        totals=totals,
        counts=each,
        by_broker=each,
        by_domain=each,
        findings=found,
        new=found.filter(found["new"]),
        away=found.filter(pc.equal(found["rule"], str(Rule.BROKER_OFFLINE))),
        topics=topics,
        holdings=judged.holdings,
        unfair=judged.unfair,
        writes_by_rack=aggregates.written_by_rack(judged.writes),
        writes=aggregates.written_by_topic(judged.writes, producers),
    )
    return merged([part])


def merged(parts: Sequence[Digest]) -> Digest:
    """Merge the digests of several parts into one."""
    every = Digest(*(pa.concat_tables([getattr(part, one.name) for part in parts]) for one in fields(Digest)))
    counted = aggregates.counted
    return Digest(
        totals=_totals(every.totals),
        counts=grouped(
            every.counts, ["rule", "severity"], [("findings", "sum"), ("new", "sum"), ("first_seen", "min")]
        ),
        by_broker=counted(every.by_broker, "broker"),
        by_domain=counted(every.by_domain, "level", "domain"),
        findings=aggregates.worst(every.findings, MAX_FINDINGS),
        new=aggregates.worst(every.new, MAX_CHANGED),
        away=grouped(every.away, ["broker"], []),
        topics=aggregates.worst_topics(every.topics, MAX_TOPICS),
        holdings=aggregates.holdings(every.holdings),
        unfair=aggregates.unfair(every.unfair),
        writes_by_rack=aggregates.racks(every.writes_by_rack),
        writes=aggregates.written_afar(every.writes, MAX_WRITES),
    )


def _totals(rows: pa.Table) -> pa.Table:
    """Return one row of sums. `bytes` is null if no size is known, `move_bytes` if any size is not known."""
    sums = {name: pc.sum(rows[name], min_count=0) for name in ("topics", "non_compliant_topics", *_NUMBERS)}
    sums["bytes"] = pc.sum(rows["bytes"])
    sums["move_bytes"] = pc.sum(rows["move_bytes"], skip_nulls=False, min_count=0)
    return pa.table({name: [one] for name, one in sums.items()})
