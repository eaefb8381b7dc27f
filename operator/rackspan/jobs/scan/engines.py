"""The two engines of a scan: what reads and judges a cluster. All that follows is the same for both."""

from collections.abc import Callable, Collection, Iterator

import pyarrow as pa

from rackspan.core.topology import TopologyError
from rackspan.jobs.batches.batch_judging import judge_batches
from rackspan.jobs.sources.scanned_cluster import REASONS, ClusterError, ScannedCluster
from rackspan.reconcile.failures import FailureError
from rackspan.snapshots import SnapshotError

Engine = Callable[[ScannedCluster, Collection[str]], Iterator[pa.RecordBatch]]
"""
Read and judge a cluster: batches of JUDGED, in any order. The second argument are topics to ask for by name, which the
cluster may not list. Raises ClusterError.
"""


def in_process(cluster: ScannedCluster, known: Collection[str]) -> Iterator[pa.RecordBatch]:
    """Do so here, one slice after the other, in as few as can be."""
    judge = judge_batches(cluster.criteria)
    try:
        for part in cluster.reader.slices(known, 1):
            yield from judge(cluster.reader.read(part))
    except (FailureError, SnapshotError, TopologyError) as error:
        raise ClusterError(REASONS[type(error).__name__], str(error)) from error
