"""What the scan before has found, and when it looked."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from rackspan.jobs.history.scan_history import History
from rackspan.jobs.spark.data_frames import read_table
from rackspan.jobs.spark.schemas import TABLES

LONGEST_GAP: Final = timedelta(days=1)
"""A pause between scans counts for so long at most: after that nobody knows."""


class Past:
    """The scan before. Where there is no history, and before the first scan, it is empty."""

    def __init__(self, spark: SparkSession, history: History | None, cluster: str) -> None:
        """Raises HistoryError, as all of it does."""
        self._spark = spark
        latest = history.latest(cluster) if history else None
        self._last = (history, latest) if history and latest else None

    @property
    def observed_at(self) -> datetime | None:
        """When it looked."""
        return self._last[1].newest.observed_at if self._last else None

    @property
    def sequence(self) -> int:
        """Its place among the cluster's scans, 0 where there is none."""
        return self._last[1].newest.sequence if self._last else 0

    def minutes_until(self, now: datetime) -> float:
        """Minutes that have passed since. A clock that went back is taken to have stood still."""
        passed = now - (self.observed_at or now)
        return min(max(passed, timedelta(0)), LONGEST_GAP).total_seconds() / 60

    def findings(self) -> DataFrame:
        """Its findings, with the columns of their table."""
        if self._last is None:
            return read_table(self._spark, "findings", [])
        history, manifest = self._last
        rows = read_table(self._spark, "findings", history.paths("findings", [manifest]))
        return rows.where(F.col("scan_id") == manifest.newest.scan_id)

    def topics(self, names: Collection[str]) -> pa.Table:
        """What it said of these topics; of one that was all well it said nothing."""
        rows = self._rows("topics")
        return rows.filter(pa.compute.is_in(rows["topic"], pa.array(list(names), pa.string())))

    @cached_property
    def told(self) -> frozenset[str]:
        """Topics that it said something of."""
        return frozenset(self._rows("topics")["topic"].to_pylist())

    @cached_property
    def violated(self) -> frozenset[str]:
        """Topics that were out of compliance."""
        rows = self._rows("topics")
        return frozenset(rows.filter(pa.compute.greater(rows["non_compliant"], 0))["topic"].to_pylist())

    @cached_property
    def online(self) -> Mapping[int, bool]:
        """Brokers by id, and whether they were there."""
        return {row["broker"]: row["online"] for row in self._rows("brokers").to_pylist()}

    def _rows(self, table: str) -> pa.Table:
        if self._last is None:
            return TABLES[table].empty_table()
        history, manifest = self._last
        return history.rows(table, [manifest], manifest.newest.scan_id)
