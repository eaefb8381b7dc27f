"""The comparison of a scan with the previous scan."""

from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rackspan.core.topology import BoolArray, IntArray
from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.previous_scan import PreviousScan
from rackspan.reports.document import MAX_CHANGED

_TIME: Final = TABLES["findings"].field("first_seen").type


class Comparison:
    """The comparison of a scan with the previous one, part by part. Each finding and each topic must be passed once.

    It holds 17 bytes for each of the previous scan's findings, and the names of topics that were out of compliance.
    """

    def __init__(self, previous: PreviousScan, observed_at: datetime) -> None:
        """`observed_at` is when the scan read the cluster. Raises HistoryError, as `worst_cleared` does."""
        self._previous = previous
        self._observed_at = pa.scalar(observed_at, _TIME)
        known = previous.first_seen
        ids, first = np.unique(known["id"].to_numpy(), return_index=True)  # Kafka may have listed a partition twice
        self._ids: IntArray = ids
        self._first_seen = known["first_seen"].combine_chunks().take(pa.array(first))
        self._found = np.zeros(len(ids), dtype=bool)
        self._violated = previous.non_compliant_topics
        self.minutes = previous.minutes_until(observed_at)
        """Minutes since the previous scan, as `PreviousScan.minutes_until` counts them."""
        self.gone = self._violated
        """Topics that were out of compliance at the previous scan and were not passed to `topics` so far."""

    def findings(self, found: pa.Table) -> pa.Table:
        """Return findings with the columns `first_seen` and `new`.

        `first_seen` is taken from the previous scan's finding with the same id, else it is the time of this scan.
        """
        at, known = self._places(found)
        self._found[at[known]] = True
        since = self._first_seen.take(pa.array(at, mask=~known))
        return found.append_column("first_seen", pc.coalesce(since, self._observed_at)).append_column(
            "new", pa.array(~known)
        )

    def topics(self, topics: pa.Table) -> pa.Table:
        """Return topics with the column `violation_minutes`.

        A topic that was out of compliance at the previous scan gets the minutes since then, every other topic 0.
        """
        self.gone = self.gone.filter(pc.invert(pc.is_in(self.gone, topics["topic"].combine_chunks())))
        wrong = pc.is_in(topics["topic"], self._violated)
        return topics.append_column("violation_minutes", pc.if_else(wrong, self.minutes, 0.0))

    @property
    def cleared(self) -> int:
        """The number of the previous scan's findings that were not passed to `findings` so far."""
        return int(np.count_nonzero(~self._found))

    def worst_cleared(self) -> pa.Table:
        """Return the worst of the `cleared` findings, as rows of the table `findings`."""
        worst = TABLES["findings"].empty_table()
        for part in self._previous.findings() if self.cleared else ():
            at, known = self._places(part)
            known[known] = ~self._found[at[known]]
            worst = aggregates.worst(pa.concat_tables([worst, part.filter(pa.array(known))]), MAX_CHANGED)
        return worst

    def _places(self, found: pa.Table) -> tuple[IntArray, BoolArray]:
        """Return the positions of findings' ids among those of the previous scan, and whether each id is there."""
        wanted = found["id"].to_numpy()
        at: IntArray = np.searchsorted(self._ids, wanted)
        known: BoolArray = at < len(self._ids)
        known[known] = self._ids[at[known]] == wanted[known]
        return at, known
