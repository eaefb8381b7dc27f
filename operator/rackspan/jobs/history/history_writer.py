"""Writes one scan into the history: its tables, then the trend over all scans, then the commit that shows it."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import History, HistoryError, ScanEntry
from rackspan.reports.document import ScanDocument, decode, encode

_FLAP_DAYS: Final = timedelta(days=7)
_SHORT_DAYS: Final = 2


@dataclass(frozen=True, slots=True)
class HistoryTrend:
    """
    What the history says, the scan that is being written included.

    `violation_minutes` are by topic, of all that is kept; `broker_flaps` by broker id, how often it came or went in the
    last seven days; `days` are rows of `aggregates.days`, and `hours` those of `aggregates.hours`, none where there are
    more than two days.
    """

    violation_minutes: Mapping[str, float] = field(default_factory=dict)
    broker_flaps: Mapping[int, int] = field(default_factory=dict)
    days: list[Mapping[str, Any]] = field(default_factory=list)
    hours: list[Mapping[str, Any]] = field(default_factory=list)


class HistoryWriter:
    """Writes one scan of a cluster. All methods raise HistoryError where the history cannot be read or written."""

    def __init__(self, history: History, cluster: str, scan_id: str, sequence: int, observed_at: datetime) -> None:
        self._history = history
        self._entry = ScanEntry(cluster, scan_id, sequence, observed_at, uuid.uuid4().hex)
        self._tables: Mapping[str, pa.Table] = {}

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """Write the rows of all tables; readers do not see them before `commit`."""
        self._history.write(self._entry, tables)
        self._tables = tables

    def trend(self) -> HistoryTrend:
        """Sum up all scans that are kept and this one, whose tables have to be written by then."""
        scans = self._history.scans(self._entry.cluster)
        week = (self._entry.observed_at - _FLAP_DAYS).date()
        lately = [entry for entry in scans if entry.day >= week]
        minutes = aggregates.topic_minutes(self._kept("topics", scans, ["topic", "violation_minutes"]))
        flaps = aggregates.flaps(self._kept("brokers", lately, ["broker", "changed"]))
        every = pa.concat_tables(self._kept("scans", scans, TABLES["scans"].names))
        days = aggregates.days(every)
        hours = aggregates.hours(every).to_pylist() if len(days) <= _SHORT_DAYS else []
        return HistoryTrend(
            {row["topic"]: row["violation_minutes"] for row in minutes.to_pylist()},
            {row["broker"]: row["changed"] for row in flaps.to_pylist() if row["changed"]},
            days.to_pylist(),
            hours,
        )

    def commit(self, document: ScanDocument) -> ScanDocument:
        """Make the scan visible, and give its document: another run's where that committed the same scan id first."""
        if self._history.commit(self._entry, self._tables["scans"], [encode(document)]):
            return document
        scans = self._history.scans(self._entry.cluster)
        first = next(entry for entry in scans if entry.scan_id == self._entry.scan_id)
        return decode(self._history.document(first))

    def tidy(self, before: ScanEntry | None, retention_days: int | None, announce: Callable[[str], None]) -> None:
        """
        Compact and forget, with the first scan of a day; `before` is the previous scan.

        The scan has been committed by now, so an error here is only a warning; the next day's first scan tries again.
        """
        if before is None or before.day == self._entry.day:
            return
        try:
            self._history.compact(before)
            if retention_days is not None:
                # Days are deleted by the earlier of two scans' clocks: one clock that jumps ahead deletes nothing.
                today = min(self._entry.day, before.day)
                self._history.expire(before.cluster, today - timedelta(days=retention_days))
            self._history.vacuum()
        except HistoryError as error:
            announce(f"warning: {error}")

    def _kept(self, table: str, scans: Sequence[ScanEntry], columns: Sequence[str]) -> Iterator[pa.Table]:
        """Rows of a table about scans that are kept, and those of this scan."""
        yield from self._history.parts(table, scans, columns)
        yield self._tables[table].select(columns)
