"""Shortest ways over a dense graph: one round of Bellman and Ford's search, over all arcs at once."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rackspan.core.topology import IntArray

N = TypeVar("N", bound=np.signedinteger[Any])


def relaxed(
    distance: npt.NDArray[N], before: IntArray, costs: npt.NDArray[N]
) -> tuple[npt.NDArray[N], IntArray] | None:
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
