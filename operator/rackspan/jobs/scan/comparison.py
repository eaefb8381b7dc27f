"""What a scan finds, beside what the previous one found."""

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
    """
    A scan beside the previous one, part by part: each finding and each topic is given once.

    It holds 17 bytes for each of the previous scan's findings, and the names of topics that were out of compliance.
    """

    def __init__(self, previous: PreviousScan, observed_at: datetime) -> None:
        """`observed_at` is when the scan looked at the cluster. Raises HistoryError, as `worst_cleared` does."""
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
        """Topics that were out of compliance, and that were not given so far."""

    def findings(self, found: pa.Table) -> pa.Table:
        """
        Findings with the columns `first_seen` and `new`.

        `first_seen` is that of the previous scan's finding with the same id, else when this scan looked.
        """
        at, known = self._places(found)
        self._found[at[known]] = True
        since = self._first_seen.take(pa.array(at, mask=~known))
        return found.append_column("first_seen", pc.coalesce(since, self._observed_at)).append_column(
            "new", pa.array(~known)
        )

    def topics(self, topics: pa.Table) -> pa.Table:
        """
        Topics with the column `violation_minutes`.

        A topic that was out of compliance at the previous scan gets the minutes since then, every other one 0.
        """
        self.gone = self.gone.filter(pc.invert(pc.is_in(self.gone, topics["topic"].combine_chunks())))
        wrong = pc.is_in(topics["topic"], self._violated)
        return topics.append_column("violation_minutes", pc.if_else(wrong, self.minutes, 0.0))

    @property
    def cleared(self) -> int:
        """How many of the previous scan's findings were not given so far."""
        return int(np.count_nonzero(~self._found))

    def worst_cleared(self) -> pa.Table:
        """The worst of them, as rows of the table `findings`."""
        worst = TABLES["findings"].empty_table()
        for part in self._previous.findings() if self.cleared else ():
            at, known = self._places(part)
            known[known] = ~self._found[at[known]]
            worst = aggregates.worst(pa.concat_tables([worst, part.filter(pa.array(known))]), MAX_CHANGED)
        return worst

    def _places(self, found: pa.Table) -> tuple[IntArray, BoolArray]:
        """Where the ids of findings are among those of the previous scan, and whether they are there."""
        wanted = found["id"].to_numpy()
        at: IntArray = np.searchsorted(self._ids, wanted)
        known: BoolArray = at < len(self._ids)
        known[known] = self._ids[at[known]] == wanted[known]
        return at, known
