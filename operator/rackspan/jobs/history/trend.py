"""Trends over the scans of a cluster."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import History, ScanEntry

_FLAP_DAYS: Final = timedelta(days=7)
_SHORT_DAYS: Final = 2


@dataclass(frozen=True, slots=True)
class HistoryTrend:
    """The trend of a cluster, including the scan that is being written.

    `violation_minutes` are sums over the whole history, by requested topic. `broker_flaps` is how often a broker went
    online or offline in the last seven days, by broker id, without zeros. `days` are rows of `aggregates.days`. `hours`
    are rows of `aggregates.hours`, and empty if there are more than two days.
    """

    violation_minutes: Mapping[str, float] = field(default_factory=dict)
    broker_flaps: Mapping[int, int] = field(default_factory=dict)
    days: list[Mapping[str, Any]] = field(default_factory=list)
    hours: list[Mapping[str, Any]] = field(default_factory=list)


def trend_of(history: History, entry: ScanEntry, tables: Mapping[str, pa.Table]) -> HistoryTrend:
    """
    Return the trend of all scans in the history and of one scan that is not committed yet, with its rows in `tables`.

    Violation minutes are summed up only for the topics in `tables["topics"]`. Raises HistoryError.
    """
    asked = tables["topics"]["topic"].combine_chunks()

    def rows(table: str, kept: Sequence[ScanEntry], columns: Sequence[str]) -> Iterator[pa.Table]:
        yield from history.parts(table, kept, columns)
        yield tables[table].select(columns)

    def topics() -> Iterator[pa.Table]:
        for part in rows("topics", scans, ["topic", "violation_minutes"]):
            yield part.filter(pa.compute.is_in(part["topic"], asked))

    scans = history.scans(entry.cluster)
    week = (entry.observed_at - _FLAP_DAYS).date()
    lately = [one for one in scans if one.day >= week]
    minutes = aggregates.topic_minutes(topics())
    flaps = aggregates.flaps(rows("brokers", lately, ["broker", "changed"]))
    every = pa.concat_tables(rows("scans", scans, TABLES["scans"].names))
    days = aggregates.days(every)
    hours = aggregates.hours(every).to_pylist() if len(days) <= _SHORT_DAYS else []
    return HistoryTrend(
        {row["topic"]: row["violation_minutes"] for row in minutes.to_pylist()},
        {row["broker"]: row["changed"] for row in flaps.to_pylist() if row["changed"]},
        days.to_pylist(),
        hours,
    )
