"""Writes one scan into the history: its tables, then the trend over all scans, then the commit that shows it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from rackspan.jobs.batches import aggregates
from rackspan.jobs.history.scan_history import History, HistoryError, Manifest
from rackspan.reports.document import ScanDocument, decode, encode

_FLAP_DAYS: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class HistoryTrend:
    """
    What the history says, the scan that is being written included.

    `violation_minutes` are by topic, of all that is kept; `broker_flaps` by broker id, how often it came or went in the
    last seven days; `days` are rows of `aggregates.days`.
    """

    violation_minutes: Mapping[str, float] = field(default_factory=dict)
    broker_flaps: Mapping[int, int] = field(default_factory=dict)
    days: list[Mapping[str, Any]] = field(default_factory=list)


class HistoryWriter:
    """Writes one scan of a cluster. All methods raise HistoryError where the history cannot be read or written."""

    def __init__(self, history: History, cluster: str, scan_id: str, observed_at: datetime) -> None:
        self._history = history
        self._observed_at = observed_at
        self._attempt = history.begin(cluster, scan_id, observed_at)
        self._tables: Mapping[str, pa.Table] = {}

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """Write the rows of all tables; readers do not see them before `commit`."""
        for table, rows in tables.items():
            self._history.write(self._attempt, table, rows)
        self._tables = tables

    def trend(self) -> HistoryTrend:
        """Sum up all scans that are kept and this one, whose tables have to be written by then."""
        manifests = self._history.manifests(self._attempt.cluster)
        week = (self._observed_at - _FLAP_DAYS).date()
        lately = [manifest for manifest in manifests if manifest.day >= week]
        minutes = aggregates.topic_minutes(self._kept("topics", manifests))
        flaps = aggregates.flaps(self._kept("brokers", lately))
        days = aggregates.days(pa.concat_tables(self._kept("scans", manifests)))
        return HistoryTrend(
            {row["topic"]: row["violation_minutes"] for row in minutes.to_pylist()},
            {row["broker"]: row["changed"] for row in flaps.to_pylist() if row["changed"]},
            days.to_pylist(),
        )

    def commit(self, document: ScanDocument) -> ScanDocument:
        """Make the scan visible, and give its document: another run's where that committed the same scan id first."""
        attempt = self._attempt
        manifest = self._history.commit(attempt, self._observed_at, encode(document))
        entry = next(scan for scan in manifest.scans if scan.scan_id == attempt.scan_id)
        return document if entry.document == attempt.document else decode(self._history.document(entry))

    def tidy(self, before: datetime | None, retention_days: int | None, tell: Callable[[str], None]) -> None:
        """
        Compact days that are over, and delete those that are past retention; `before` is the time of the previous scan.

        The scan has been committed by now, so an error here is only told; the next scan tries again.
        """
        cluster = self._attempt.cluster
        try:
            self._history.compact(cluster, self._observed_at.date())
            if retention_days is not None:
                # Days are deleted by the earlier of two scans' clocks: one clock that jumps ahead deletes nothing.
                today = min(self._observed_at, before or self._observed_at).astimezone(UTC).date()
                self._history.expire(cluster, today - timedelta(days=retention_days))
            self._history.sweep(cluster, datetime.now(UTC))
        except HistoryError as error:
            tell(f"warning: {error}")

    def _kept(self, table: str, manifests: list[Manifest]) -> Iterator[pa.Table]:
        """Rows of a table in the files that manifests name, and those of this scan."""
        yield from self._history.parts(table, manifests)
        yield self._tables[table]
