"""How many replicas of each partition the fullest domains of a level hold."""

import numpy as np
import numpy.typing as npt

from rackspan.core.snapshot import NONE
from rackspan.core.topology import IntArray, Level, RackTree


def largest_first(tree: RackTree, replicas: npt.NDArray[np.integer], level: Level) -> IntArray:
    """
    Replicas in each domain of a level that holds any, largest first, then zeros, in the shape of `replicas`.

    Unknown brokers count nowhere.
    """
    counts = np.zeros(replicas.shape, dtype=np.int64)
    at = tree.positions(replicas)
    domain = np.sort(np.append(level.of_broker, [NONE])[at], axis=1)
    new = np.ones(domain.shape, dtype=bool)
    new[:, 1:] = domain[:, 1:] != domain[:, :-1]
    counts[new] = np.diff(np.flatnonzero(new), append=new.size)
    counts[domain == NONE] = 0
    return -np.sort(-counts, axis=1)
