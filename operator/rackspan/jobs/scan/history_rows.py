"""Builds rows of the history's tables from the results of a scan. All have the columns of `schemas.TABLES`."""

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
    """Return rows of `findings`."""
    return _named("findings", scan_id, found)


def topics(scan_id: str, counted: pa.Table) -> pa.Table:
    """Return rows of `topics`: those of `counted`, which has all topics, with findings or violation minutes."""
    said = pc.or_(pc.greater(counted["findings"], 0), pc.greater(counted["violation_minutes"], 0))
    return _named("topics", scan_id, counted.filter(said))


def gone_topics(scan_id: str, names: pa.Array, minutes: float) -> pa.Table:
    """
    Return rows of `topics` for deleted topics that were out of compliance: zeros, with all minutes since the last scan.

    The time of a topic's deletion is not known, as the time of a fix is not known for other topics.
    """
    zeros = {field.name: 0 for field in TABLES["topics"] if pa.types.is_integer(field.type)}
    rows = [{**zeros, "topic": name, "violation_minutes": minutes} for name in names.to_pylist() if minutes]
    return _table("topics", scan_id, rows)


def holdings(scan_id: str, held: pa.Table) -> pa.Table:
    """Return rows of `holdings`: the replicas and leaders of each domain and each broker."""
    return _named("holdings", scan_id, held)


def brokers(scan_id: str, locations: BrokerLocations, before: Mapping[int, bool]) -> pa.Table:
    """
    Return rows of `brokers`. `changed` says whether a broker was offline in `before` and is online now, or vice versa.

    A snapshot does not list brokers that are offline, so a broker of `before` that is not listed is offline.
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
    """Return rows of `groups`: consumer groups."""
    return _table("groups", scan_id, (msgspec.structs.asdict(row) for row in rows))


def scan(
    scan_id: str, sequence: int, observed_at: datetime, minutes: float, summary: Summary, violation_minutes: float
) -> pa.Table:
    """Return the row of `scans`. `minutes` are since the previous scan, `violation_minutes` those of all topics."""
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
