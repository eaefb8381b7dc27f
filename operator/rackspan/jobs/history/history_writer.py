"""The entry of one scan in the history: written, seen with all that was there before, and committed at last."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from rackspan.jobs.history import trends
from rackspan.jobs.history.scan_history import History, HistoryError, Manifest
from rackspan.jobs.spark.data_frames import read_table, rows_of
from rackspan.jobs.spark.schemas import TABLES
from rackspan.jobs.spark.spark_errors import SPARK_ERRORS, explained
from rackspan.reports.document import ScanDocument, decode, encode

_FLAP_DAYS: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class OverTime:
    """What the history says, this scan included: minutes by topic, flaps by broker, and days."""

    minutes: Mapping[str, float] = field(default_factory=dict)
    flaps: Mapping[int, int] = field(default_factory=dict)
    days: list[Mapping[str, Any]] = field(default_factory=list)


class Ledger:
    """Where one scan of a cluster writes. All of it raises HistoryError."""

    def __init__(
        self, spark: SparkSession, history: History, cluster: str, scan_id: str, observed_at: datetime
    ) -> None:
        self._spark = spark
        self._history = history
        self._observed_at = observed_at
        self._attempt = history.begin(cluster, scan_id, observed_at)

    def write(self, findings: DataFrame, tables: Mapping[str, pa.Table]) -> None:
        """Write the rows of all tables, which nobody sees yet."""
        others = (name for name in TABLES["findings"].names if name != "scan_id")
        columns = [F.lit(self._attempt.scan_id).alias("scan_id"), *others]
        try:
            findings.select(columns).write.parquet(self._history.spark_path(self._attempt, "findings"))
        except SPARK_ERRORS as error:
            raise HistoryError(f"history {self._history.location}: {explained(error)}") from error
        for table, rows in tables.items():
            self._history.write(self._attempt, table, rows)

    def over_time(self) -> OverTime:
        """Look at all scans that are kept, and at this one, which has been written."""
        manifests = self._history.manifests(self._attempt.cluster)
        week = (self._observed_at - _FLAP_DAYS).date()
        lately = [manifest for manifest in manifests if manifest.day >= week]
        minutes = trends.topic_minutes(self._kept("topics", manifests))
        flaps = trends.flaps(self._kept("brokers", lately))
        days = trends.days(self._kept("scans", manifests))
        return OverTime(
            {row["topic"]: row["violation_minutes"] for row in rows_of(minutes)},
            {row["broker"]: row["flaps"] for row in rows_of(flaps) if row["flaps"]},
            rows_of(days),
        )

    def commit(self, document: ScanDocument) -> ScanDocument:
        """Make it visible. Where another run of this very scan was quicker, its document counts and is given."""
        attempt = self._attempt
        manifest = self._history.commit(attempt, self._observed_at, encode(document))
        entry = next(scan for scan in manifest.scans if scan.scan_id == attempt.scan_id)
        return document if entry.document == attempt.document else decode(self._history.document(entry))

    def tidy(self, before: datetime | None, retention_days: int | None, tell: Callable[[str], None]) -> None:
        """
        Compact and forget; `before` is when the scan before looked.

        The scan is done by now: what goes wrong here is told, and the next one tries again.
        """
        cluster = self._attempt.cluster
        try:
            self._history.compact(cluster, self._observed_at.date())
            if retention_days is not None:
                # One clock that jumps ahead is not believed before the next scan agrees.
                today = min(self._observed_at, before or self._observed_at).astimezone(UTC).date()
                self._history.expire(cluster, today - timedelta(days=retention_days))
            self._history.sweep(cluster, datetime.now(UTC))
        except HistoryError as error:
            tell(f"warning: {error}")

    def _kept(self, table: str, manifests: list[Manifest]) -> DataFrame:
        """Rows of a table that manifests name, and those that this run has written."""
        paths = [*self._history.paths(table, manifests), self._history.spark_path(self._attempt, table)]
        return read_table(self._spark, table, paths)
