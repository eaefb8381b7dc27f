"""Shortest ways over a dense graph: one round of Bellman and Ford's search, over all arcs at once."""

import numpy as np

from rackspan.core.topology import IntArray


def relaxed(distance: IntArray, before: IntArray, costs: IntArray) -> tuple[IntArray, IntArray] | None:
    """
    Distances that one more arc makes shorter, and the nodes ahead on these ways; None where none gets shorter.

    `distance` and `before` have the shape (nodes,), -1 in `before` where a way begins; `costs` (nodes, nodes) are those
    of the arcs from each node to each other one.
    """
    through = distance[:, None] + costs
    best = through.argmin(axis=0)
    least = through[best, np.arange(len(distance))]
    shorter = least < distance
    if not shorter.any():
        return None
    return np.where(shorter, least, distance), np.where(shorter, best, before)
