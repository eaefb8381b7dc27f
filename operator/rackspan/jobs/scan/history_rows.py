"""Rows of the history's tables, from what a scan has seen. All tables have the columns of `schemas.TABLES`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa

from rackspan.core.scanning import BrokerLocations
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.scan.document_rows import rack_name
from rackspan.reports.document import GroupRow, Summary


def with_minutes(topics: pa.Table, violated: frozenset[str], minutes: float) -> pa.Table:
    """
    Add the column `violation_minutes` to topics.

    A topic that was out of compliance at the previous scan gets the `minutes` since then, every other one 0. One that
    is not there any more gets a row of zeros with its minutes: when it was deleted is not known, as it is not known of
    others when they were fixed.
    """
    zeros = {field.name: 0 for field in topics.schema if pa.types.is_integer(field.type)}
    gone = [{**zeros, "topic": name} for name in sorted(violated.difference(topics["topic"].to_pylist()))]
    every = pa.concat_tables([topics, pa.Table.from_pylist(gone, schema=topics.schema)])
    spent = [minutes if name in violated else 0.0 for name in every["topic"].to_pylist()]
    return every.append_column("violation_minutes", pa.array(spent, pa.float64()))


def with_unread(topics: pa.Table, before: pa.Table) -> pa.Table:
    """Add topics that could not be read to those that could: their rows of the previous scan, in `before`."""
    return pa.concat_tables([topics, before.select(topics.schema.names).cast(topics.schema)])


def findings(scan_id: str, found: pa.Table) -> pa.Table:
    """Rows of `findings`."""
    return _named("findings", scan_id, found)


def topics(scan_id: str, counted: pa.Table) -> pa.Table:
    """Rows of `topics`: those with findings or violation minutes, of `counted`, which are all."""
    said = pa.compute.or_(
        pa.compute.greater(counted["findings"], 0), pa.compute.greater(counted["violation_minutes"], 0)
    )
    return _named("topics", scan_id, counted.filter(said))


def holdings(scan_id: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows of `holdings`: what each domain and each broker holds."""
    return _table("holdings", scan_id, rows)


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
    scan_id: str, sequence: int, observed_at: datetime, minutes: float, summary: Summary, counted: pa.Table
) -> pa.Table:
    """The one row of `scans`; `minutes` are those since the previous scan."""
    row = {
        "sequence": sequence,
        "finished_at": observed_at,
        "minutes": minutes,
        **{name: getattr(summary, name) for name in ("topics", "partitions", "non_compliant", "findings", "moves")},
        "critical": summary.by_severity.get("critical", 0),
        "violation_minutes": pa.compute.sum(counted["violation_minutes"]).as_py() or 0.0,
    }
    return _table("scans", scan_id, [row])


def _named(table: str, scan_id: str, rows: pa.Table) -> pa.Table:
    schema = TABLES[table]
    named = rows.append_column("scan_id", pa.array([scan_id] * len(rows), pa.string()))
    return named.select(schema.names).cast(schema)


def _table(name: str, scan_id: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "scan_id": scan_id} for row in rows], schema=TABLES[name])
