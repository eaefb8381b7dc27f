"""The synthetic cluster for scans."""

from itertools import pairwise

import numpy as np
import pytest

from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster


@pytest.mark.parametrize("cuts", [(0, 10), (0, 1, 10), (0, 3, 4, 10)])
def test_synthetic_partitions_do_not_depend_on_how_they_are_split_into_portions(cuts):
    cluster = SyntheticCluster(957, brokers=60, broken=0.3, behind=0.3)
    whole = cluster.portion(0, cluster.topics)
    parts = [cluster.portion(start, stop) for start, stop in pairwise(cuts)]
    assert sum((part.names for part in parts), ()) == whole.names
    for column in ("number", "replicas", "in_sync", "leader", "size_bytes"):
        joined = np.concatenate([getattr(part, column) for part in parts])
        assert np.array_equal(joined, getattr(whole, column)), column
    assert 200 < np.count_nonzero(~whole.in_sync) < 370
