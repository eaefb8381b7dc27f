"""The two engines of a scan: what reads and judges a cluster. All that follows is the same for both."""

from collections.abc import Callable, Collection, Iterator

from rackspan.core.topology import TopologyError
from rackspan.jobs.batches.batch_judging import judge_slice
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.sources.scanned_cluster import REASONS, ClusterError, ScannedCluster
from rackspan.reconcile.failures import FailureError
from rackspan.snapshots import SnapshotError

Advance = Callable[[int, int], None]
"""Called with how many slices are judged, and how many there are."""

Engine = Callable[[ScannedCluster, Collection[str], Advance], Iterator[Judged]]
"""
Read and judge a cluster: what was judged of each slice, in any order. The second argument are topics to ask for by
name, which the cluster may not list. Raises ClusterError.
"""


def in_process(cluster: ScannedCluster, known: Collection[str], advance: Advance) -> Iterator[Judged]:
    """Do so here, one slice after the other."""
    try:
        slices = cluster.reader.slices(known, cluster.slices(1))
        for done, part in enumerate(slices, 1):
            judged = judge_slice(cluster.criteria, cluster.reader.read(part))
            advance(done, len(slices))
            yield judged
    except (FailureError, SnapshotError, TopologyError) as error:
        raise ClusterError(REASONS[type(error).__name__], str(error)) from error
