"""
Dealing: from replicas per domain to replicas per partition, exactly, one pass per level.

In a domain, each partition needs a number of its children to take one replica above their least; those numbers differ
by at most one between partitions, and each child takes at most one per partition. Such a table of zeros and ones with
given row and column sums always exists, and McNaughton's wrap-around rule writes it down without searching: put the
partitions that need equally many in a line, and let each child in turn serve as many next partitions as its quota says,
from the front again when the line ends.

    line 0 1 2 3 of partitions that need two children; quotas a 3, b 3, c 2:
        0 1 2 | 3 0 1 | 2 3       a serves 0 1 2, b serves 3 0 1, c serves 2 3

No child meets itself, since its quota is at most the length of the line. The line is in the order of a hash, another
one for each domain and each round, so that partner brokers vary and the load of a broker that fails spreads over many.
Partitions that need one more have a line of their own, in which each child serves in proportion to its quota, as in
that of the others: who has a domain's only replica of a partition has to lead it where leaders are wanted there.
"""

import numpy as np
import numpy.typing as npt

from rackspan.core.fairness import Windows
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, RackTree

_SHORT = 16  # bits; numpy sorts keys of this size by radix, in linear time
_LINE, _CELL, _TURN = 0x1000, 0x200, 0x100  # purposes of hashes

_Lines = list[tuple[IntArray, IntArray]]  # per round: partitions in line and the children that serve them


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
        rounds = int(extras[giver])
        for lines in _lines(seed, giver, bears, rounds, children, quota[children]):
            for number, (partitions, served) in enumerate(lines[:rounds]):
                cells[used + number, partitions] = served
            for partitions, served in lines[rounds:]:
                cells[row[partitions], partitions] = served
        used += rounds
    return used


def _lines(
    seed: int, giver: int, bears: npt.NDArray[np.bool_], rounds: int, children: IntArray, quota: IntArray
) -> tuple[_Lines, _Lines]:
    """
    Lines of the partitions that bear a cell already, which takes one round more, and of the others.

    Each child serves both kinds in proportion to its quota: where leaders have to be in this domain, a partition with
    one replica there leaves no choice.
    """
    hashes = scrambled(seed, _LINE + giver, np.arange(len(bears)))
    bearing, bare = np.flatnonzero(bears), np.flatnonzero(~bears)
    share = _share(quota, len(bearing) * (rounds + 1), len(bearing), len(bare))
    return (
        _rounds(seed, giver, bearing, hashes[bearing], np.repeat(children, share), rounds + 1),
        _rounds(seed, giver, bare, hashes[bare], np.repeat(children, quota - share), rounds),
    )


def _share(quota: IntArray, amount: int, most: int, rest: int) -> IntArray:
    """Share `amount` of the quotas in proportion, at most `most` of each, such that at most `rest` of each are left."""
    if not amount:
        return np.zeros_like(quota)
    least, most_of = np.maximum(quota - rest, 0), np.minimum(quota, most)
    wanted = quota * (amount / int(quota.sum()))
    share: IntArray = np.clip(np.floor(wanted).astype(np.int64), least, most_of)
    while (lacking := amount - int(share.sum())) != 0:
        step = 1 if lacking > 0 else -1
        able = np.flatnonzero(share < most_of if step > 0 else share > least)
        share[able[np.argsort(step * (share - wanted)[able], kind="stable")][: abs(lacking)]] += step
    return share


def _rounds(
    seed: int, giver: int, partitions: IntArray, hashes: npt.NDArray[np.uint32], served: IntArray, rounds: int
) -> _Lines:
    """
    Partitions in line and the children that serve them, per round.

    `served` are the children in turn, each as often as its share says.

    Each round has a line of its own, so that any children can meet in a partition. Only a child whose service runs over
    from one round to the next could meet itself: the next line begins with partitions it has not served.
    """
    size = len(partitions)
    if not size:
        return [(partitions, partitions)] * rounds
    line = np.argsort(hashes.astype(np.uint16), kind="stable")
    lines = [(line, served[:size])]
    for number in range(1, rounds):
        before, part = lines[-1], served[number * size : (number + 1) * size]
        again = scrambled(seed, _LINE + giver, partitions + number * size)
        line = np.argsort(again.astype(np.uint16), kind="stable")
        due = int(np.count_nonzero(part == before[1][-1]))
        if due:
            met = np.zeros(size, dtype=bool)
            met[before[0][before[1] == before[1][-1]]] = True
            first = np.flatnonzero(~met[line])[:due]
            line = np.concatenate([line[first], np.delete(line, first)])
        lines.append((line, part))
    return [(partitions[line], part) for line, part in lines]


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
