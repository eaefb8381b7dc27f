"""Split the replicas of each broker over partitions, exactly and for all levels at once.

Put the replicas of the topic in a line, so that those of a broker and those of a domain are adjacent. Break the line
into as many rows as a partition has replicas. Then each column is a partition (McNaughton's wrap-around rule, called
systematic sampling in statistics).

    6 partitions, quotas a 3, b 3 in one rack, c 2, d 4 in another:        0 1 2 3 4 5
                                                                           a a a b b b
                                                                           c c d d d d

`q` adjacent replicas meet each of `n` columns `floor(q / n)` or `ceil(q / n)` times. No broker is in a column twice,
because its quota is at most `n`. Each domain keeps to its window (`rackspan.core.compliance.fair_split`), which has at
most two sizes, because its quota is between `n` times the smaller size and `n` times the larger one.

In one line, the same brokers would share partitions again and again. So the line only splits the quotas, again to
within one, over many small rounds of columns (column `p` belongs to round `p` modulo the number of rounds), in which a
broker has about one replica. Each round is then laid out in its own order (`engine.allocation.broker_orders`).
"""

import numpy as np
import numpy.typing as npt

from rackspan.core.placement.engine.allocation.broker_orders import Orders
from rackspan.core.topology import IntArray, RackTree

_Positions = npt.NDArray[np.int32]

_AT_ONCE = 1 << 16  # replicas per step, so that their arrays stay in the processor's cache


def wrap_around(tree: RackTree, quota: IntArray, count: int, seed: int) -> IntArray:
    """Split `quota`, the replicas of each broker (see `quotas`), over `count` partitions.

    Returns depth-first broker positions of shape (replicas, count). The order within a partition is arbitrary.
    """
    size = int(quota.sum()) // count
    orders = Orders(tree, seed)
    order = orders.laid_out(0, np.arange(len(quota))[None, :])[0]
    line = np.repeat(order.astype(np.int32), quota[order]).reshape(size, count)
    rounds = count // -(-int(np.count_nonzero(quota)) // size)
    return (_dealt_anew(line, rounds, orders) if rounds > 1 else line).astype(np.int64)


def _dealt_anew(line: _Positions, rounds: int, orders: Orders) -> _Positions:
    """Lay out each round again in its own order. The columns of a round are `rounds` apart."""
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
