"""What a cluster's previous scan found, and when."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

import pyarrow as pa

from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import History
from rackspan.reports.document import ScanDocument

LONGEST_GAP: Final = timedelta(days=1)
"""Violation minutes grow by this much at most per scan: what was between two scans far apart is not known."""


class PreviousScan:
    """A cluster's previous scan; empty where there is no history, and before the first scan."""

    def __init__(self, history: History | None, cluster: str) -> None:
        """Raises HistoryError where the history cannot be read, as every member does."""
        self._history = history
        self._scans = history.scans(cluster) if history else []
        self.entry = self._scans[-1] if self._scans else None
        """Where the history has it; None where there is none."""

    def committed(self, scan_id: str) -> ScanDocument | None:
        """The document of the scan with this id, of all that the history has; None where there is none."""
        entry = next((one for one in self._scans if one.scan_id == scan_id), None)
        return None if self._history is None or entry is None else self._history.document(entry)

    @property
    def observed_at(self) -> datetime | None:
        """When it ran, in UTC; None where there is none."""
        return self.entry.observed_at if self.entry else None

    @property
    def sequence(self) -> int:
        """Its number among the cluster's scans, which are counted from 1; 0 where there is none."""
        return self.entry.sequence if self.entry else 0

    def minutes_until(self, now: datetime) -> float:
        """Minutes from it to `now`: 0 to a day's, 0 also where the clock went back."""
        passed = now - (self.observed_at or now)
        return min(max(passed, timedelta(0)), LONGEST_GAP).total_seconds() / 60

    @cached_property
    def first_seen(self) -> pa.Table:
        """`id` and `first_seen` of its findings."""
        return self._rows("findings", "id", "first_seen")

    def findings(self) -> Iterator[pa.Table]:
        """Its findings, part by part, with the columns of the table `findings`."""
        return self._parts("findings")

    def findings_of(self, topics: pa.Array) -> pa.Table:
        """Its findings about these topics."""
        return self._about(topics, "findings")

    def topics(self, names: pa.Array) -> pa.Table:
        """Its rows of the table `topics` about these; topics without findings have none."""
        return self._about(names, "topics")

    @property
    def known_topics(self) -> list[str]:
        """Topics that have a row in its table `topics`: those with findings or violation minutes."""
        names: list[str] = self._topics["topic"].to_pylist()
        return names

    @property
    def non_compliant_topics(self) -> pa.Array:
        """Topics that had partitions out of compliance."""
        return self._topics.filter(pa.compute.greater(self._topics["non_compliant"], 0))["topic"].combine_chunks()

    @cached_property
    def broker_online(self) -> Mapping[int, bool]:
        """Whether each broker was online, by id."""
        return {row["broker"]: row["online"] for row in self._rows("brokers", "broker", "online").to_pylist()}

    @cached_property
    def _topics(self) -> pa.Table:
        return self._rows("topics", "topic", "non_compliant")

    def _rows(self, table: str, *columns: str) -> pa.Table:
        if self._history is None or self.entry is None:
            return TABLES[table].empty_table().select(columns)
        return self._history.rows(table, [self.entry], *columns)

    def _parts(self, table: str) -> Iterator[pa.Table]:
        if self._history is not None and self.entry is not None:
            yield from self._history.parts(table, [self.entry], TABLES[table].names)

    def _about(self, topics: pa.Array, table: str) -> pa.Table:
        parts = self._parts(table) if len(topics) else ()
        about = (part.filter(pa.compute.is_in(part["topic"], topics)) for part in parts)
        return pa.concat_tables([TABLES[table].empty_table(), *about])
