"""
Weighing: fewer bytes on the fullest broker, at the cost of nothing else.

Two followers of which each could lie where the other does change places, or one goes to a broker with one replica
fewer: moves, replicas per broker and leaders stay as they are. Repeated for the broker with the most bytes until no
single exchange helps it. To do better than that is a packing problem, which is hard.
"""

from itertools import count

import numpy as np
import numpy.typing as npt

from rackspan.core.placement.engine.replicas import Replicas
from rackspan.core.topology import IntArray

BoolArray = npt.NDArray[np.bool_]
_ROUNDS = 1_000
_PAIRS = 1 << 20  # pairs of replicas weighed against each other at once


def even_bytes(replicas: Replicas, size_bytes: IntArray, load: IntArray) -> None:
    """
    Lower the bytes of the fullest broker by exchanging followers (all columns but the first).

    `size_bytes` (partitions,) are the bytes of one replica, -1 if unknown. `load` (brokers,), in bytes, is kept up to
    date.
    """
    sizes = np.maximum(size_bytes, 0)
    for turn in count():
        if turn == _ROUNDS or not _ease(replicas, sizes, load):
            return


def _ease(replicas: Replicas, sizes: IntArray, load: IntArray) -> bool:
    """Take the best exchange for the fullest broker; False where none makes it better."""
    full = int(np.argmax(load))
    itself = np.zeros(len(load), dtype=bool)
    itself[full] = True
    row, column, taker = _followers(replicas, itself, ~itself)
    back_row, back_column, _ = _followers(replicas, ~itself, itself)
    giver = replicas.placed[back_row, back_column]
    order = np.argsort(giver, kind="stable")
    back_row, back_column, giver = back_row[order], back_column[order], giver[order]
    # Every replica that could leave, beside every one that could come from where it would go.
    first, last = np.searchsorted(giver, taker), np.searchsorted(giver, taker, side="right")
    heavy = np.argsort(-sizes[row], kind="stable")
    heavy = heavy[np.cumsum((last - first)[heavy]) <= _PAIRS]
    pairs = (last - first)[heavy]
    out = np.repeat(heavy, pairs)
    back = np.arange(len(out)) - np.repeat(np.cumsum(pairs) - pairs, pairs) + np.repeat(first[heavy], pairs)
    swap = row[out] != back_row[back]
    out, back = out[swap], back[swap]
    alone = np.flatnonzero(replicas.load[taker] == replicas.load[full] - 1)
    eased = np.concatenate([sizes[row[out]] - sizes[back_row[back]], sizes[row[alone]]])
    other = np.concatenate([taker[out], taker[alone]])
    if not len(eased):
        return False
    highest = np.maximum(load[full] - eased, load[other] + eased)
    best = int(np.argmin(highest))
    if highest[best] >= load[full]:
        return False
    leaving = out[best] if best < len(out) else alone[best - len(out)]
    replicas.hand_over(int(row[leaving]), int(column[leaving]), int(taker[leaving]))
    if best < len(out):
        replicas.hand_over(int(back_row[back[best]]), int(back_column[back[best]]), full)
    else:
        replicas.load[full] -= 1
        replicas.load[other[best]] += 1
    load[full] -= eased[best]
    load[other[best]] += eased[best]
    return True


def _followers(replicas: Replicas, givers: BoolArray, takers: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    row, column, taker = replicas.handovers(givers, takers)
    chosen = column > 0
    return row[chosen], column[chosen], taker[chosen]
