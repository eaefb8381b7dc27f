"""Rows of the history's tables, from what a scan has seen. All tables have the columns of `schemas.TABLES`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rackspan.core.scanning import BrokerLocations
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.scan.document_rows import rack_name
from rackspan.reports.document import GroupRow, Summary


def findings(scan_id: str, found: pa.Table) -> pa.Table:
    """Rows of `findings`."""
    return _named("findings", scan_id, found)


def topics(scan_id: str, counted: pa.Table) -> pa.Table:
    """Rows of `topics`: those with findings or violation minutes, of `counted`, which are all."""
    said = pc.or_(pc.greater(counted["findings"], 0), pc.greater(counted["violation_minutes"], 0))
    return _named("topics", scan_id, counted.filter(said))


def gone_topics(scan_id: str, names: pa.Array, minutes: float) -> pa.Table:
    """
    Rows of `topics` about those that were out of compliance and are not there any more: zeros, with their minutes.

    When each was deleted is not known, as it is not known of others when they were fixed.
    """
    zeros = {field.name: 0 for field in TABLES["topics"] if pa.types.is_integer(field.type)}
    rows = [{**zeros, "topic": name, "violation_minutes": minutes} for name in names.to_pylist() if minutes]
    return _table("topics", scan_id, rows)


def holdings(scan_id: str, held: pa.Table) -> pa.Table:
    """Rows of `holdings`: what each domain and each broker holds."""
    return _named("holdings", scan_id, held)


def brokers(scan_id: str, locations: BrokerLocations, before: Mapping[int, bool]) -> pa.Table:
    """
    Rows of `brokers`; `changed` where a broker is online now and was not in `before`, or the other way round.

    A snapshot lists only brokers that are there: one that was in `before` and is not listed is offline.
    """
    rows = [
        {
            "broker": broker.id,
            "rack": rack_name(broker),
            "reported_rack": broker.reported_rack,
            "online": broker.online,
            "changed": before.get(broker.id, broker.online) != broker.online,
        }
        for broker in locations.brokers
    ]
    gone = sorted(set(before).difference(row["broker"] for row in rows))
    rows += [{"broker": broker, "online": False, "changed": before[broker]} for broker in gone]
    return _table("brokers", scan_id, rows)


def groups(scan_id: str, rows: Sequence[GroupRow]) -> pa.Table:
    """Rows of `groups`: consumer groups."""
    return _table("groups", scan_id, (msgspec.structs.asdict(row) for row in rows))


def scan(
    scan_id: str, sequence: int, observed_at: datetime, minutes: float, summary: Summary, violation_minutes: float
) -> pa.Table:
    """The one row of `scans`; `minutes` are those since the previous scan, the others those of all topics together."""
    row = {
        "sequence": sequence,
        "finished_at": observed_at,
        "minutes": minutes,
        **{name: getattr(summary, name) for name in ("topics", "partitions", "non_compliant", "findings", "moves")},
        "critical": summary.by_severity.get("critical", 0),
        "violation_minutes": violation_minutes,
    }
    return _table("scans", scan_id, [row])


def _named(table: str, scan_id: str, rows: pa.Table) -> pa.Table:
    schema = TABLES[table]
    named = rows.append_column("scan_id", pa.array([scan_id] * len(rows), pa.string()))
    return named.select(schema.names).cast(schema)


def _table(name: str, scan_id: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "scan_id": scan_id} for row in rows], schema=TABLES[name])
