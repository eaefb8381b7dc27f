"""
Dealing: from replicas per domain to replicas per partition, exactly, one pass per level.

In a domain, each partition needs a number of its children to take one replica above their least; those numbers differ by
at most one between partitions, and each child takes at most one per partition. Such a table of zeros and ones with given
row and column sums always exists, and McNaughton's wrap-around rule writes it down without searching: put the partitions
in a line, those that need one more first, and let each child in turn serve as many next partitions as its quota says,
from the front again when the line ends.

    line 0 1 2 3 4 5, of which 0 and 1 need two children, the others one; quotas a 3, b 3, c 2:
        0 1 2 | 3 4 5 | 0 1       a serves 0 1 2, b serves 3 4 5, c serves 0 1

No child meets itself, since its quota is at most the length of the line. The line is in the order of a hash, another one
for each domain, so that partner brokers vary and the load of a broker that fails spreads over many.
"""

import numpy as np

from rackspan.core.fairness import Windows
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, RackTree

_RADIX = 1 << 16  # numpy sorts 16-bit keys by radix, in linear time
_LINE, _TOKEN = 0x100, 0x200  # purposes of hashes, one per level each


def deal(tree: RackTree, windows: Windows, totals: list[IntArray], count: int, seed: int) -> IntArray:
    """
    Deal `totals` (see `quotas`) to `count` partitions.

    Gives depth-first broker positions of shape (count, replicas); no order within a partition is promised.
    """
    placed = np.empty((count, int(windows.low[0][0])), dtype=np.int64)
    fixed = np.flatnonzero(windows.low[-1])
    placed[:, : len(fixed)] = fixed
    column = len(fixed)
    # A token is one replica above some domain's least: its domain, its partition, its column in the result.
    tokens = np.empty((3, 0), dtype=np.int64)
    for depth in range(len(tree.nodes) - 1):
        above, below = tree.nodes[depth], tree.nodes[depth + 1]
        needs = windows.extras[depth]
        for giver in np.flatnonzero(needs):  # no more domains than replicas per partition
            hashes = scrambled(seed, _LINE + depth, np.arange(count) * len(above) + giver)
            tokens = _joined(tokens, int(giver), int(needs[giver]), np.argsort(hashes, kind="stable"), column)
            column += int(needs[giver])
        if len(above) < len(below):
            tokens = tokens[:, _line(seed, depth, tokens, len(above), needs > 0)]
        quota = totals[depth + 1] - count * windows.low[depth + 1]
        tokens[0] = np.repeat(np.arange(len(below)), quota) if len(above) < len(below) else tokens[0]
    placed[tokens[1], tokens[2]] = tokens[0]
    return placed


def _joined(tokens: IntArray, giver: int, rounds: int, line: IntArray, column: int) -> IntArray:
    """Line up every partition in a domain that gives to all, `rounds` times, and once more those with a token there."""
    here = tokens[0] == giver
    bearer = np.full(len(line), -1)
    bearer[tokens[1, here]] = tokens[2, here]
    line = np.concatenate([line[bearer[line] >= 0], line[bearer[line] < 0]])
    again = line[: np.count_nonzero(here)]
    joined = np.empty((3, rounds * len(line) + len(again)), dtype=np.int64)
    joined[0] = giver
    joined[1] = np.concatenate([*[line] * rounds, again])
    joined[2] = np.concatenate([np.repeat(np.arange(column, column + rounds), len(line)), bearer[again]])
    return np.concatenate([tokens[:, ~here], joined], axis=1)


def _line(seed: int, depth: int, tokens: IntArray, domains: int, joined: IntArray) -> IntArray:
    """Order of the tokens by domain, then by hash; where `joined` has lined them up already they stay as they are."""
    hashes = scrambled(seed, _TOKEN + depth, tokens[1] * domains + tokens[0]).astype(np.uint16)
    if joined.any():
        hashes[joined[tokens[0]]] = 0
    if domains == 1:
        return np.argsort(hashes, kind="stable")
    order = np.argsort(hashes, kind="stable")
    keys = tokens[0, order]
    return order[np.argsort(keys.astype(np.uint16) if domains <= _RADIX else keys, kind="stable")]
