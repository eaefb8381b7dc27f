"""Snapshot files: the brokers, topics and partitions of a cluster as one JSON document, read into columns and written.

    {"clusterId": str | null,
     "brokers": [{"id": int, "rack": str | null, "cordoned": bool}],
     "topics": [{"name": str, "config": {…}, "inherited": [str],
                 "partitions": [{"partition": int, "replicas": [int], "isr": [int], "elr": [int],
                                 "leader": int | null, "sizeBytes": int | null}]}]}

Optional fields and their defaults: `clusterId`, `rack`, `cordoned` (false), `config`, `inherited` (none), `isr` (all
replicas), `elr` (none), `leader` (the first replica), `sizeBytes`. `inherited` are keys of `config` that come from the
brokers and are not set on the topic itself. A `cordoned` broker gets no new replicas.
"""

from rackspan.snapshots.log_dirs import read_log_dirs
from rackspan.snapshots.reader import parse_snapshot, read_outline, read_snapshot
from rackspan.snapshots.snapshot_errors import SnapshotError
from rackspan.snapshots.writer import snapshot_lines

__all__ = [
    "SnapshotError",
    "parse_snapshot",
    "read_log_dirs",
    "read_outline",
    "read_snapshot",
    "snapshot_lines",
]
