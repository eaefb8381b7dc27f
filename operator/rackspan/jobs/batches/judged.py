"""The results of judging, and how the results of portions are merged into the result of a slice."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rackspan.jobs.batches import aggregates
from rackspan.jobs.batches.schemas import JUDGED


@dataclass(frozen=True, slots=True)
class Judged:
    """The results of judging some partitions: tables with the columns of `schemas.JUDGED`."""

    findings: pa.Table
    topics: pa.Table
    holdings: pa.Table
    unfair: pa.Table
    writes: pa.Table
    unread: pa.Table

    @classmethod
    def of(cls, **tables: pa.Table) -> "Judged":
        """Return a result with these tables. The other tables are empty."""
        return cls(**{name: tables.get(name, schema.empty_table()) for name, schema in JUDGED.items()})

    @classmethod
    def together(cls, parts: Sequence["Judged"]) -> "Judged":
        """Concatenate the rows of several results that have no topic in common."""
        return cls(*(pa.concat_tables([getattr(one, name) for one in (cls.of(), *parts)]) for name in JUDGED))

    @classmethod
    def merged(cls, portions: Sequence["Judged"]) -> "Judged":
        """Merge the results of several portions, which may have partitions of the same topics."""
        every = cls.together(portions)
        return cls(
            findings=aggregates.findings(every.findings),
            topics=aggregates.topics(every.topics),
            holdings=aggregates.holdings(every.holdings),
            unfair=aggregates.unfair(every.unfair),
            writes=aggregates.writes(every.writes),
            unread=every.unread,
        )
