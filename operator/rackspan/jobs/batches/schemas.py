"""
Columns of what the job reads, passes on and keeps, in Arrow's types.

A table of the history may gain columns but never lose or
change one: older files read as null there.
"""

from typing import Final

import pyarrow as pa

PARTITIONS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("replicas", pa.list_(pa.int32())),
        ("in_sync", pa.list_(pa.bool_())),
        ("leader", pa.int32()),
        ("size_bytes", pa.int64()),
        ("min_insync", pa.int32()),
        ("fewest_replicas", pa.int32()),
        ("unread", pa.string()),
    ]
)
"""
What a source gives: a row per partition. `leader` is -1 where there is none, `size_bytes` where it is not known.
`min_insync` and `fewest_replicas` (those of the topic's smallest partition) are of the whole topic.

A topic that could not be read has one row instead, with its name and, in `unread`, the reason.
"""

FINDING_COLUMNS: Final = [
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
TOPIC_COLUMNS: Final = [
    ("partitions", pa.int64()),
    ("replicas", pa.int64()),
    ("replication_factor", pa.int32()),
    ("min_insync", pa.int32()),
    ("non_compliant", pa.int64()),
    ("offline", pa.int64()),
    ("under_replicated", pa.int64()),
    ("bytes", pa.int64()),
]
HOLDING_COLUMNS: Final = [
    ("brokers", pa.int32()),
    ("leaders", pa.int64()),
    ("leading", pa.int64()),
    ("not_writable", pa.int64()),
    ("last_replica", pa.int64()),
]

JUDGED: Final = pa.schema([("kind", pa.string()), *FINDING_COLUMNS, *TOPIC_COLUMNS, *HOLDING_COLUMNS])
"""What judging gives, in one pass: rows of several kinds, each with the columns of its kind and null in the others."""

FINDING: Final = "finding"
TOPIC: Final = "topic"
HOLDING: Final = "holding"
UNFAIR: Final = "unfair"
UNREAD: Final = "unread"
"""A topic that could not be read; `reason` tells why."""

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
    "findings": pa.schema([("scan_id", pa.string()), *FINDING_COLUMNS, ("first_seen", pa.timestamp("us", tz="UTC"))]),
    "topics": pa.schema(
        [
            ("scan_id", pa.string()),
            ("topic", pa.string()),
            *TOPIC_COLUMNS,
            ("moves", pa.int64()),
            ("findings", pa.int64()),
            ("worst", pa.string()),
            ("violation_minutes", pa.float64()),
        ]
    ),
    "holdings": pa.schema(
        [
            ("scan_id", pa.string()),
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
"""The tables of the history. All are kept by cluster and by date (UTC), which are part of the path."""
