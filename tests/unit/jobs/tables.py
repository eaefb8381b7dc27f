"""Example rows for every table of the history, with the id of a scan."""

import uuid
from datetime import UTC, datetime

import pyarrow as pa

from rackspan.api import codec
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import ScanEntry
from rackspan.reports.document import ScanDocument, encode

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def rows(table, scan_id, count=2):
    """Return rows of a table with this scan id. Integers count up, and all other columns are null."""
    columns = [
        pa.array([scan_id] * count if field.name == "scan_id" else list(range(count)), field.type)
        if field.name == "scan_id" or pa.types.is_integer(field.type)
        else pa.nulls(count, field.type)
        for field in TABLES[table]
    ]
    return pa.Table.from_arrays(columns, schema=TABLES[table])


def written(history, scan_id, cluster="prod", when=NOON, count=2):
    """Write an attempt with rows in every table except `scans`, and return its entry without a commit."""
    sequence = max((one.sequence for one in history.scans(cluster)), default=0) + 1
    entry = ScanEntry(cluster, scan_id, sequence, when, uuid.uuid4().hex)
    writer = history.writer(entry)
    for table in TABLES:
        if table != "scans":
            writer.write(table, rows(table, scan_id, count))
    writer.append()
    return entry


def example_document(entry):
    """Return the document of an attempt."""
    at = codec.timestamp(entry.observed_at)
    return ScanDocument(entry.scan_id, entry.cluster, at, at)


def shown(history, entry):
    """Commit an attempt and return whether it counts."""
    row = {"scan_id": entry.scan_id, "sequence": entry.sequence, "finished_at": entry.observed_at}
    scans = pa.Table.from_pylist([row], schema=TABLES["scans"])
    return history.writer(entry).commit(scans, [encode(example_document(entry))])


def committed(history, scan_id, cluster="prod", when=NOON, count=2):
    """Commit a scan to the history and return its entry."""
    entry = written(history, scan_id, cluster, when, count)
    shown(history, entry)
    return entry


def scan_ids(history, cluster="prod"):
    """Return the ids of the scans that a reader sees, in order."""
    return [scan.scan_id for scan in history.scans(cluster)]


def contents(history, cluster="prod"):
    """Return all rows of all tables, sorted."""
    scans = history.scans(cluster)
    return {table: sorted(history.rows(table, scans).to_pylist(), key=repr) for table in TABLES}
