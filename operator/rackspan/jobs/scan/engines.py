"""The two engines of a scan, which read and judge a cluster. All later steps are the same for both."""

from collections.abc import Callable, Collection, Iterator

from rackspan.core.topology import TopologyError
from rackspan.jobs.batches.batch_judging import judge_slice
from rackspan.jobs.batches.judged import Judged
from rackspan.jobs.sources.scanned_cluster import REASONS, ClusterError, ScannedCluster
from rackspan.reconcile.failures import FailureError
from rackspan.snapshots import SnapshotError

Advance = Callable[[int, int], None]
"""Called with the number of slices that are judged, and the number of all slices."""

Engine = Callable[[ScannedCluster, Collection[str], Advance], Iterator[Judged]]
"""Read and judge a cluster, and yield the result of each slice, in any order. The second argument are topics to read by
name, because the cluster may not list them. Raises ClusterError.
"""


def in_process(cluster: ScannedCluster, known: Collection[str], advance: Advance) -> Iterator[Judged]:
    """Read and judge a cluster in this process, one slice after the other."""
    try:
        slices = cluster.reader.slices(known, cluster.slices(1))
        for done, part in enumerate(slices, 1):
            judged = judge_slice(cluster.criteria, cluster.reader.read(part))
            advance(done, len(slices))
            yield judged
    except (FailureError, SnapshotError, TopologyError) as error:
        raise ClusterError(REASONS[type(error).__name__], str(error)) from error
