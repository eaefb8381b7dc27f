"""Bytes per second that are read from and written to each partition, from offsets at two moments.

Offsets count records, not bytes. So an offset counts as the log's mean bytes per offset, compressed as on disk and on
the network. If a group does not commit offsets, or its offsets were reset in between, the rate is not known.
"""

from collections.abc import Callable, Mapping

import numpy as np

from rackspan.core.consumers.group_locality import ReplicaPlaces
from rackspan.core.snapshot import NONE
from rackspan.core.topology import FloatArray, IntArray

Offsets = Mapping[tuple[str, int], int]
"""Committed offsets by topic and partition."""
RatesOf = Callable[[str], FloatArray | None]
"""Returns the `rates` of a group, None if they are not known. They are as long as the table of partitions, so those of
thousands of groups at once would take gigabytes."""


def unknown_rates(_group: str) -> None:
    """Return None, for all groups."""


def bytes_per_offset(start: IntArray, end: IntArray, size: IntArray) -> FloatArray:
    """Return the mean bytes per offset of logs from their start offset, end offset and size in bytes, shape (n,) each.

    A size of -1 and negative offsets mean not known. The result is NaN if a value is not known or the log is empty.
    """
    known = (start >= 0) & (end > start) & (size != NONE)
    mean = np.full(len(start), np.nan)
    np.divide(size, end - start, out=mean, where=known)
    return mean


def written_rates(before: IntArray, after: IntArray, seconds: float, per_offset: FloatArray) -> FloatArray:
    """Return the bytes per second that producers write to logs, shape (n,) like the arguments, NaN if not known.

    `before` and `after` are end offsets, `seconds` apart, -1 if not known.
    """
    known = (before >= 0) & (after >= before)
    grown = after - before
    return np.where(known, np.where(grown == 0, 0.0, grown * per_offset / seconds), np.nan)


def rates(
    replicas: ReplicaPlaces, before: Offsets, after: Offsets, seconds: float, per_offset: FloatArray
) -> FloatArray:
    """Return the bytes per second that a group reads of each partition in `replicas`, shape (n,), NaN if not known.

    `before` and `after` are the group's committed offsets, `seconds` apart; `per_offset` (n,) is `bytes_per_offset`.
    """
    both = [(at, before[at], after[at]) for at in before.keys() & after.keys() if after[at] >= before[at]]
    found = np.full(len(replicas.partitions), np.nan)
    rows = replicas.rows([topic for (topic, _), *_ in both], [number for (_, number), *_ in both])
    read = np.array([end - start for _, start, end in both], dtype=np.float64)
    known = rows != NONE
    rows, read = rows[known], read[known]
    found[rows] = np.where(read == 0, 0.0, read * per_offset[rows] / seconds)
    return found
