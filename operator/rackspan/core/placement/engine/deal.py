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
_LINE, _CELL, _TURN = 0x1000, 0x200, 0x100  # purposes of hashes


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
            used = _sink(cells, used, windows.extras[depth], quota, below.parent, seed + depth)
    return placed


def _sink(cells: IntArray, used: int, extras: IntArray, quota: IntArray, parent: IntArray, seed: int) -> int:
    """Move the first `used` rows of cells down to the children that serve them; start rows where there are extras."""
    flat = cells[:used].reshape(-1)
    everyone = np.arange(len(quota))
    if not extras.any():
        flat[_line(flat, np.arange(flat.size), len(extras), seed)] = np.repeat(everyone, quota)
        return used
    givers = np.flatnonzero(extras).tolist()  # no more domains than replicas per partition
    bearers = [_bearers(cells[:used], giver) for giver in givers]
    if used:
        alone = np.flatnonzero(extras[flat] == 0)
        served = np.repeat(everyone, np.where(extras[parent] == 0, quota, 0))
        flat[alone[_line(flat[alone], alone, len(extras), seed)]] = served
    for giver, (row, bears) in zip(givers, bearers, strict=True):
        children = np.flatnonzero(parent == giver)
        children = children[np.argsort(scrambled(seed, _TURN, children), kind="stable")]
        line = _lines(seed, giver, bears, int(extras[giver]), np.repeat(children, quota[children]))
        for partitions, children_of in line[: int(extras[giver])]:
            cells[used, partitions] = children_of
            used += 1
        for partitions, children_of in line[int(extras[giver]) :]:
            cells[row[partitions], partitions] = children_of
    return used


def _lines(
    seed: int, giver: int, bears: npt.NDArray[np.bool_], rounds: int, served: IntArray
) -> list[tuple[IntArray, IntArray]]:
    """
    Partitions in line and the children that serve them, per round; in a last one those that bear a cell already.

    `served` are the children in turn, each as often as its quota says.

    Each round has a line of its own, so that any children can meet in a partition. Only a child whose service runs over
    from one round to the next could meet itself: the next line begins with partitions it has not served.
    """
    everyone = np.arange(len(bears))
    line = np.argsort(scrambled(seed, _LINE + giver, everyone).astype(np.uint16), kind="stable")
    if bears.any():  # one line for all rounds keeps those that need one more in front
        line = np.concatenate([line[bears[line]], line[~bears[line]]])
        parts = [served[start : start + len(line)] for start in range(0, len(served), len(line))]
        return [(line[: len(part)], part) for part in parts]
    lines = [(line, served[: len(line)])]
    for number in range(1, rounds):
        before, part = lines[-1], served[number * len(line) : (number + 1) * len(line)]
        line = np.argsort(
            scrambled(seed, _LINE + giver, everyone + number * len(bears)).astype(np.uint16), kind="stable"
        )
        due = int(np.count_nonzero(part == before[1][-1]))
        if due:
            met = np.zeros(len(line), dtype=bool)
            met[before[0][before[1] == before[1][-1]]] = True
            first = np.flatnonzero(~met[line])[:due]
            line = np.concatenate([line[first], np.delete(line, first)])
        lines.append((line, part))
    return lines


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
