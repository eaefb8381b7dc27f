"""
From replicas per broker to replicas per partition, exactly and for all levels at once.

Lay the replicas of the topic in a line, all of a broker side by side and all of a domain side by side, break the line
into as many rows as a partition has replicas, and read the columns: each is a partition (McNaughton's wrap-around
rule, systematic sampling in statistics).

    6 partitions, quotas a 3, b 3 in one rack, c 2, d 4 in another:        0 1 2 3 4 5
                                                                           a a a b b b
                                                                           c c d d d d

What lies side by side and is `q` long meets each of `n` columns `floor(q / n)` or `ceil(q / n)` times. No broker meets
a column twice, since its quota is at most `n`; and each domain keeps to its window
(`rackspan.core.compliance.fair_split`), which is of two sizes at most, since its quota lies between `n` times the one
and `n` times the other.

Such neighbours meet the same partners all along. So the line is only used to share the quotas out, again to within one,
over many small rounds of columns (column `p` belongs to round `p` modulo their number), in which a broker has about one
replica. Each round is laid out anew, in an order of its own (`engine.allocation.broker_orders`).
"""

import numpy as np
import numpy.typing as npt

from rackspan.core.placement.engine.allocation.broker_orders import Orders
from rackspan.core.topology import IntArray, RackTree

_Positions = npt.NDArray[np.int32]

_AT_ONCE = 1 << 16  # replicas: what is worked on stays in the processor's cache


def wrap_around(tree: RackTree, quota: IntArray, count: int, seed: int) -> IntArray:
    """
    Deal `quota`, replicas of each broker (see `quotas`), to `count` partitions.

    Gives depth-first broker positions of shape (replicas, count); no order within a partition is promised.
    """
    size = int(quota.sum()) // count
    orders = Orders(tree, seed)
    order = orders.laid_out(0, np.arange(len(quota))[None, :])[0]
    line = np.repeat(order.astype(np.int32), quota[order]).reshape(size, count)
    rounds = count // -(-int(np.count_nonzero(quota)) // size)
    return (_dealt_anew(line, rounds, orders) if rounds > 1 else line).astype(np.int64)


def _dealt_anew(line: _Positions, rounds: int, orders: Orders) -> _Positions:
    """Deal each round of columns, `rounds` apart, in an order of its own."""
    size, count = line.shape
    columns, longer = divmod(count, rounds)
    table = np.zeros((size, (columns + (longer > 0)) * rounds), dtype=np.int32)
    table[:, :count] = line
    shared = table.reshape(size, -1, rounds)
    for begin, end, length in ((0, longer, columns + 1), (longer, rounds, columns)):
        step = max(1, _AT_ONCE // (size * length))
        for first in range(begin, end, step):
            some = shared[:, :length, first : min(first + step, end)]
            laid = orders.laid_out(first + 1, some.reshape(size * length, -1).T)
            some[:] = laid.reshape(-1, size, length).transpose(1, 2, 0)
    return table[:, :count]
