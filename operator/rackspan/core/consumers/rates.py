"""
Bytes per second that are read and written of each partition, from two looks at offsets.

Kafka counts records, not bytes: an offset is worth what the log has per offset on average, compressed as it lies on
disk and goes over the wire. Where a group does not commit, or was set back in between, nothing is known.
"""

from collections.abc import Mapping

import numpy as np

from rackspan.core.consumers.group_locality import ReplicaPlaces
from rackspan.core.snapshot import NONE
from rackspan.core.topology import FloatArray, IntArray

Offsets = Mapping[tuple[str, int], int]
"""Committed offsets by topic and partition."""


def bytes_per_offset(start: IntArray, end: IntArray, size: IntArray) -> FloatArray:
    """
    Mean bytes per offset of logs from their first offset, their end and their bytes, shape (n,) each.

    -1 is not known, as are all negative offsets. NaN where one of them is not, and where a log is empty.
    """
    known = (start >= 0) & (end > start) & (size != NONE)
    mean = np.full(len(start), np.nan)
    np.divide(size, end - start, out=mean, where=known)
    return mean


def written_rates(before: IntArray, after: IntArray, seconds: float, per_offset: FloatArray) -> FloatArray:
    """
    Bytes per second that producers write to logs, shape (n,) as the arguments, NaN where not known.

    `before` and `after` are end offsets, `seconds` apart, -1 where not known.
    """
    known = (before >= 0) & (after >= before)
    grown = after - before
    return np.where(known, np.where(grown == 0, 0.0, grown * per_offset / seconds), np.nan)


def rates(
    replicas: ReplicaPlaces, before: Offsets, after: Offsets, seconds: float, per_offset: FloatArray
) -> FloatArray:
    """
    Bytes per second of each partition in `replicas`, shape (n,), NaN where not known.

    `before` and `after` are what one group has committed, `seconds` apart; `per_offset` (n,) is `bytes_per_offset`.
    """
    both = [(at, before[at], after[at]) for at in before.keys() & after.keys() if after[at] >= before[at]]
    found = np.full(len(replicas.partitions), np.nan)
    rows = replicas.rows([topic for (topic, _), *_ in both], [number for (_, number), *_ in both])
    read = np.array([end - start for _, start, end in both], dtype=np.float64)
    known = rows != NONE
    rows, read = rows[known], read[known]
    found[rows] = np.where(read == 0, 0.0, read * per_offset[rows] / seconds)
    return found
