"""The two engines of a scan: what reads and judges a cluster. All that follows is the same for both."""

from collections.abc import Callable, Collection, Iterator

from rackspan.core.topology import TopologyError
from rackspan.jobs.batches.batch_judging import judge_slice
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.sources.scanned_cluster import REASONS, ClusterError, ScannedCluster
from rackspan.reconcile.failures import FailureError
from rackspan.snapshots import SnapshotError

Engine = Callable[[ScannedCluster, Collection[str]], Iterator[Judged]]
"""
Read and judge a cluster: what was judged of each slice, in any order. The second argument are topics to ask for by
name, which the cluster may not list. Raises ClusterError.
"""


def in_process(cluster: ScannedCluster, known: Collection[str]) -> Iterator[Judged]:
    """Do so here, one slice after the other."""
    try:
        for part in cluster.reader.slices(known, cluster.slices(1)):
            yield judge_slice(cluster.criteria, cluster.reader.read(part))
    except (FailureError, SnapshotError, TopologyError) as error:
        raise ClusterError(REASONS[type(error).__name__], str(error)) from error
