"""Rows for every table of the history, told apart by the scan they are of."""

from datetime import UTC, datetime

import pyarrow as pa

from rackspan.jobs.batches.schemas import TABLES

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def rows(table, scan_id, count=2):
    """Rows of a table; all that is not the scan's id is null, but for numbers, which count up."""
    columns = [
        pa.array([scan_id] * count if field.name == "scan_id" else list(range(count)), field.type)
        if field.name == "scan_id" or pa.types.is_integer(field.type)
        else pa.nulls(count, field.type)
        for field in TABLES[table]
    ]
    return pa.Table.from_arrays(columns, schema=TABLES[table])


def written(history, scan_id, cluster="prod", when=NOON, count=2):
    """An attempt with rows in every table, not committed."""
    attempt = history.begin(cluster, scan_id, when)
    for table in TABLES:
        history.write(attempt, table, rows(table, scan_id, count))
    return attempt


def committed(history, scan_id, cluster="prod", when=NOON, count=2):
    """A scan in the history."""
    return history.commit(written(history, scan_id, cluster, when, count), when, f'"{scan_id}"'.encode())


def scan_ids(history, cluster="prod"):
    """The scans that a reader sees, in their order."""
    scans = [scan for manifest in history.manifests(cluster) for scan in manifest.scans]
    return [scan.scan_id for scan in sorted(scans, key=lambda scan: scan.place)]


def contents(history, cluster="prod"):
    """All rows of all tables, in an order of their own."""
    return {table: sorted(history.rows(table, history.manifests(cluster)).to_pylist(), key=repr) for table in TABLES}
