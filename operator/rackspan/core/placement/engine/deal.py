"""
Dealing: from replicas per domain to replicas per partition, exactly, one pass per level.

In a domain, each partition needs a number of its children to take one replica above their least; those numbers differ
by at most one between partitions, and each child takes at most one per partition. Such a table of zeros and ones with
given row and column sums always exists, and McNaughton's wrap-around rule writes it down without searching: put the
partitions in a line, those that need one more first, and let each child in turn serve as many next partitions as its
quota says, from the front again when the line ends.

    line 0 1 2 3 4 5, of which 0 and 1 need two children, the others one; quotas a 3, b 3, c 2:
        0 1 2 | 3 4 5 | 0 1       a serves 0 1 2, b serves 3 4 5, c serves 0 1

No child meets itself, since its quota is at most the length of the line. The line is in the order of a hash, another
one for each domain, so that partner brokers vary and the load of a broker that fails spreads over many.
"""

import numpy as np
import numpy.typing as npt

from rackspan.core.fairness import Windows
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, RackTree

_SHORT = 16  # bits; numpy sorts keys of this size by radix, in linear time
_LINE, _CELL = 0x100, 0x200  # purposes of hashes


def deal(tree: RackTree, windows: Windows, totals: list[IntArray], count: int, seed: int) -> IntArray:
    """
    Deal `totals` (see `quotas`) to `count` partitions.

    Gives depth-first broker positions of shape (replicas, count); no order within a partition is promised.
    """
    always = np.flatnonzero(windows.low[-1])
    placed = np.full((int(windows.low[0][0]), count), -1)
    placed[: len(always)] = always[:, None]
    cells = placed[len(always) :]  # each is a replica above some domain's least, and sinks from level to level
    used = 0
    for depth in range(len(tree.nodes) - 1):
        above, below = tree.nodes[depth], tree.nodes[depth + 1]
        if len(above) < len(below) or windows.extras[depth].any():
            quota = totals[depth + 1] - count * windows.low[depth + 1]
            served = np.repeat(np.arange(len(below)), quota)  # the children in turn, each as often as its quota says
            used = _sink(cells, used, windows.extras[depth], served, below.parent, seed + depth)
    return placed


def _sink(cells: IntArray, used: int, extras: IntArray, served: IntArray, parent: IntArray, seed: int) -> int:
    """Move the first `used` rows of cells down to the children that serve them; start rows where there are extras."""
    flat = cells[:used].reshape(-1)
    if not extras.any():
        flat[_line(flat, np.arange(flat.size), len(extras), seed)] = served
        return used
    server = parent[served]
    givers = np.flatnonzero(extras).tolist()  # no more domains than replicas per partition
    bearers = [_bearers(cells[:used], giver) for giver in givers]
    alone = np.flatnonzero(extras[flat] == 0)
    flat[alone[_line(flat[alone], alone, len(extras), seed)]] = served[extras[server] == 0]
    partitions = np.arange(cells.shape[1])
    for giver, (row, bears) in zip(givers, bearers, strict=True):
        children = served[server == giver]
        line = np.argsort(scrambled(seed, _LINE, partitions * len(extras) + giver).astype(np.uint16), kind="stable")
        if bears.any():
            line = np.concatenate([line[bears[line]], line[~bears[line]]])
        for _ in range(int(extras[giver])):
            cells[used, line], children = children[: len(line)], children[len(line) :]
            used += 1
        again = line[: len(children)]
        cells[row[again], again] = children
    return used


def _bearers(cells: IntArray, giver: int) -> tuple[IntArray, npt.NDArray[np.bool_]]:
    """In which row each partition has its cell in a domain (there is at most one), and whether it has any."""
    if not len(cells):
        return np.zeros(cells.shape[1], dtype=np.int64), np.zeros(cells.shape[1], dtype=bool)
    here = cells == giver
    return here.argmax(axis=0), here.any(axis=0)


def _line(domain: IntArray, cells: IntArray, domains: int, seed: int) -> IntArray:
    """Order of cells by domain, and by hash within each."""
    hashes = scrambled(seed, _CELL, cells)
    bits = (domains - 1).bit_length()
    if bits <= _SHORT // 2:
        keys = domain.astype(np.uint16) << np.uint16(_SHORT - bits) if bits else np.zeros(len(cells), dtype=np.uint16)
        return np.argsort(keys | (hashes >> np.uint32(_SHORT + bits)).astype(np.uint16), kind="stable")
    order = np.argsort(hashes.astype(np.uint16), kind="stable")
    return order[np.argsort(domain[order].astype(np.uint16 if bits <= _SHORT else np.int64), kind="stable")]
