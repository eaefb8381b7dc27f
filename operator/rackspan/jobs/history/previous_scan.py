"""The results and the time of a cluster's previous scan."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

import pyarrow as pa

from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import History
from rackspan.reports.document import ScanDocument

LONGEST_GAP: Final = timedelta(days=1)
"""The most that violation minutes grow per scan: the state between two scans that are far apart is not known."""


class PreviousScan:
    """A cluster's previous scan. It is empty if there is no history, and before the first scan."""

    def __init__(self, history: History | None, cluster: str) -> None:
        """Raise HistoryError if the history cannot be read, as every member does."""
        self._history = history
        self._scans = history.scans(cluster) if history else []
        self.entry = self._scans[-1] if self._scans else None
        """The entry of the scan in the history, or None if there is no previous scan."""

    def committed(self, scan_id: str) -> ScanDocument | None:
        """Return the document of the scan with this id, which may be any of the history's scans, or None."""
        entry = next((one for one in self._scans if one.scan_id == scan_id), None)
        return None if self._history is None or entry is None else self._history.document(entry)

    @property
    def observed_at(self) -> datetime | None:
        """The time of the scan (UTC), or None if there is no previous scan."""
        return self.entry.observed_at if self.entry else None

    @property
    def sequence(self) -> int:
        """The number of the scan among the cluster's scans, from 1, or 0 if there is no previous scan."""
        return self.entry.sequence if self.entry else 0

    def minutes_until(self, now: datetime) -> float:
        """Return the minutes from the scan to `now`, at most those of a day, and 0 if the clock went back."""
        passed = now - (self.observed_at or now)
        return min(max(passed, timedelta(0)), LONGEST_GAP).total_seconds() / 60

    @cached_property
    def first_seen(self) -> pa.Table:
        """The columns `id` and `first_seen` of the scan's findings."""
        return self._rows("findings", "id", "first_seen")

    def findings(self) -> Iterator[pa.Table]:
        """Yield the scan's findings, part by part, with the columns of the table `findings`."""
        return self._parts("findings")

    def findings_of(self, topics: pa.Array) -> pa.Table:
        """Return the scan's findings about these topics."""
        return self._about(topics, "findings")

    def topics(self, names: pa.Array) -> pa.Table:
        """Return the scan's rows of the table `topics` about these topics. A topic without findings may have none."""
        return self._about(names, "topics")

    @property
    def known_topics(self) -> list[str]:
        """The topics that have a row in the scan's table `topics`: those with findings or violation minutes."""
        names: list[str] = self._topics["topic"].to_pylist()
        return names

    @property
    def non_compliant_topics(self) -> pa.Array:
        """The topics that had partitions out of compliance."""
        return self._topics.filter(pa.compute.greater(self._topics["non_compliant"], 0))["topic"].combine_chunks()

    @cached_property
    def broker_online(self) -> Mapping[int, bool]:
        """Whether each broker was online, by broker id."""
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
