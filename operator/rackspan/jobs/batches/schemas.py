"""Arrow schemas of the tables that the job reads, passes between its steps and keeps.

A table of the history may gain columns but never lose or change one. In older files, new columns read as null.
"""

from typing import Final

import pyarrow as pa

PARTITIONS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas", pa.list_(pa.int32())),
        ("in_sync", pa.list_(pa.bool_())),
        ("eligible", pa.list_(pa.bool_())),
        ("leader", pa.int32()),
        ("size_bytes", pa.int64()),
        ("min_insync", pa.int32()),
        ("fewest_replicas", pa.int32()),
        ("unread", pa.string()),
    ]
)
"""The rows that a reader returns, one per partition. `leader` is -1 if there is none, `size_bytes` is -1 if not known.
`min_insync` and `fewest_replicas` (the least number of replicas of a partition) are those of the whole topic.

A topic that could not be read has one row instead, with its name, and the reason in `unread`.
"""

WRITE_COUNTS: Final = ("near", "same_rack", "near_same_rack", "could_be_near")
"""The counts of `core.write_locality.WriteCounts` by topic and rack. Only partitions that have a leader count."""

JUDGED: Final = {
    "findings": pa.schema(
        [
            ("id", pa.int64()),
            ("rule", pa.string()),
            ("severity", pa.string()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("broker", pa.int32()),
            ("level", pa.string()),
            ("domain", pa.string()),
            ("reason", pa.string()),
            ("excess", pa.int32()),
            ("moves", pa.int64()),
        ]
    ),
    "topics": pa.schema(
        [
            ("topic", pa.string()),
            ("partitions", pa.int64()),
            ("replicas", pa.int64()),
            ("replication_factor", pa.int32()),
            ("min_insync", pa.int32()),
            ("non_compliant", pa.int64()),
            ("offline", pa.int64()),
            ("under_replicated", pa.int64()),
            ("bytes", pa.int64()),
            ("move_bytes", pa.int64()),
            ("moves", pa.int64()),
        ]
    ),
    "holdings": pa.schema(
        [
            ("level", pa.string()),
            ("domain", pa.string()),
            ("brokers", pa.int32()),
            ("replicas", pa.int64()),
            ("leaders", pa.int64()),
            ("leading", pa.int64()),
            ("bytes", pa.int64()),
            ("offline", pa.int64()),
            ("not_writable", pa.int64()),
            ("last_replica", pa.int64()),
        ]
    ),
    "unfair": pa.schema([("level", pa.string()), ("partitions", pa.int64())]),
    "writes": pa.schema(
        [
            ("topic", pa.string()),
            ("client_rack", pa.string()),
            ("partitions", pa.int64()),
            *((name, pa.int64()) for name in WRITE_COUNTS),
        ]
    ),
    "unread": pa.schema([("topic", pa.string()), ("reason", pa.string())]),
}
"""The results of judging: the tables of `judged.Judged`."""

TABLES: Final = {
    "scans": pa.schema(
        [
            ("scan_id", pa.string()),
            ("sequence", pa.int64()),
            ("finished_at", pa.timestamp("us", tz="UTC")),
            ("minutes", pa.float64()),
            ("topics", pa.int64()),
            ("partitions", pa.int64()),
            ("non_compliant", pa.int64()),
            ("findings", pa.int64()),
            ("critical", pa.int64()),
            ("moves", pa.int64()),
            ("violation_minutes", pa.float64()),
        ]
    ),
    "findings": pa.schema(
        [("scan_id", pa.string()), *JUDGED["findings"], ("first_seen", pa.timestamp("us", tz="UTC"))]
    ),
    "topics": pa.schema(
        [
            ("scan_id", pa.string()),
            *JUDGED["topics"],
            ("findings", pa.int64()),
            ("worst", pa.string()),
            ("violation_minutes", pa.float64()),
        ]
    ),
    "holdings": pa.schema([("scan_id", pa.string()), *JUDGED["holdings"]]),
    "brokers": pa.schema(
        [
            ("scan_id", pa.string()),
            ("broker", pa.int32()),
            ("rack", pa.string()),
            ("reported_rack", pa.string()),
            ("online", pa.bool_()),
            ("changed", pa.bool_()),
        ]
    ),
    "groups": pa.schema(
        [
            ("scan_id", pa.string()),
            ("group", pa.string()),
            ("members", pa.int64()),
            ("partitions", pa.int64()),
            ("near", pa.int64()),
            ("reads_near", pa.int64()),
            ("could_be_near", pa.int64()),
            ("members_without_rack", pa.int64()),
            ("cross_bytes_per_second", pa.float64()),
        ]
    ),
}
"""The columns that scans write into the tables of the history, and read from them."""

ABOUT: Final = {
    "scans": "One row per scan. A scan counts, in all tables, when it has a row here.",
    "findings": "What scans found wrong.",
    "topics": "Topics with findings, or that were out of compliance before the scan.",
    "holdings": "What each domain and each broker held, and what its loss would do.",
    "brokers": "Brokers, their racks, and whether they came or went since the scan before.",
    "groups": "Consumer groups, and how much of what they read is near.",
}
"""The description of each table of the history, which Delta stores."""
PARTITIONED_BY: Final = ["cluster", "month"]
_COMMENTS: Final = {
    "scan_id": "names the scan, within its cluster",
    "attempt": "the run that wrote the row; rows whose attempt is not in the table scans do not count",
    "date": "the day of the scan (UTC)",
    "month": "the month of the scan (UTC), such as 2026-03",
    "document": "the scan document, JSON, packed by gzip",
    "sequence": "orders the scans of a cluster",
    "finished_at": "when the scan looked at the cluster (UTC)",
    "minutes": "minutes since the scan before, a day at most",
    "violation_minutes": "minutes out of compliance since the scan before",
    "first_seen": "since when each scan found it (UTC)",
    "id": "names the finding; the same in each scan that finds it",
    "moves": "the fewest replicas to copy to fix it",
    "move_bytes": "what these moves copy; null where a size is not known",
    "excess": "how many replicas too many, or too few where negative",
    "leading": "partitions whose preferred leader is there",
    "not_writable": "partitions that could not be written after its loss",
    "last_replica": "partitions whose last replica in sync is there",
    "changed": "whether it came or went since the scan before",
    "near": "partitions that are read within the reader's domain",
}


def _kept(name: str, columns: pa.Schema) -> pa.Schema:
    added: list[tuple[str, pa.DataType]] = [("document", pa.binary())] if name == "scans" else []
    added += [("attempt", pa.string()), ("date", pa.date32()), ("cluster", pa.string()), ("month", pa.string())]
    fields = [*columns, *(pa.field(*one) for one in added)]
    return pa.schema(
        [one.with_metadata({"comment": _COMMENTS[one.name]}) if one.name in _COMMENTS else one for one in fields]
    )


KEPT: Final = {name: _kept(name, columns) for name, columns in TABLES.items()}
"""The declared schemas of the Delta tables of the history."""
