"""
Snapshot files: a cluster's brokers, topics and partitions as one JSON document, read into columns and written back.

    {"clusterId": str | null,
     "brokers": [{"id": int, "rack": str | null, "cordoned": bool}],
     "topics": [{"name": str, "config": {…}, "inherited": [str],
                 "partitions": [{"partition": int, "replicas": [int], "isr": [int], "leader": int | null,
                                 "sizeBytes": int | null}]}]}

`clusterId`, `rack`, `cordoned` (false), `config`, `inherited` (none), `isr` (all replicas), `leader` (the first
replica) and `sizeBytes` may be left out. `inherited` are keys of `config` that come from the brokers and are not set
on the topic itself. A `cordoned` broker takes no new replicas.
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
