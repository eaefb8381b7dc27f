"""Weighted draws of one candidate, where each draw excludes some candidates.

The candidates form a line and each has a weight, so a number below the sum of the weights selects one candidate. The
excluded candidates are a few stretches of the line, whose weight is skipped. That takes time in proportion to the
number of stretches, regardless of the number of candidates.
"""

import numpy as np

from rackspan.core.topology import BoolArray, FloatArray, IntArray

_GOLDEN = (5**0.5 - 1) / 2


def prefix_of(weights: IntArray) -> IntArray:
    """Return the sum of the weights before each candidate; the last entry is the sum of all weights."""
    return np.concatenate([[0], np.cumsum(weights)])


def drawn(
    prefix: IntArray,
    low: IntArray,
    high: IntArray,
    first: IntArray,
    last: IntArray,
    fraction: FloatArray,
) -> IntArray:
    """Draw for each row a candidate from `low` up to but not including `high`, or -1 if none of them has a weight.

    `first` and `last` (rows, stretches) bound the stretches that each row excludes. They are disjoint, in order, and
    between `low` and `high`; empty stretches may be anywhere. `fraction` (rows,), from 0 up to 1, selects the candidate
    at that part of the remaining weight.
    """
    begin = prefix[first]
    skipped = prefix[last] - begin
    total = prefix[high] - prefix[low] - skipped.sum(axis=1)
    mark = prefix[low] + np.minimum((fraction * total).astype(np.int64), np.maximum(total - 1, 0))
    begin -= np.cumsum(skipped, axis=1) - skipped  # where each stretch begins after the removal of those before it
    mark += np.where(begin <= mark[:, None], skipped, 0).sum(axis=1)
    found: IntArray = np.where(total > 0, np.searchsorted(prefix, mark, side="right") - 1, -1)
    return found


def spaced(numbers: IntArray) -> FloatArray:
    """Return fractions from 0 up to 1; those of consecutive numbers are far apart."""
    fractions: FloatArray = np.modf(numbers * _GOLDEN)[0]
    return fractions


def ranks(values: IntArray) -> IntArray:
    """Return the rank of each value among its equals, in order. Equal values must be adjacent."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return np.arange(len(values)) - np.repeat(starts, np.diff(starts, append=len(values)))


def sorted_by(values: IntArray, limit: int) -> IntArray:
    """Return the stable order of numbers from 0 up to but not including `limit`."""
    small = values.astype(np.uint16) if limit <= 1 << 16 else values  # numpy sorts 16 bits by radix
    return np.argsort(small, kind="stable")


def turns(values: IntArray) -> IntArray:
    """Return for each value the number of equal values before it."""
    order = sorted_by(values, int(values.max(initial=0)) + 1)
    turn = np.empty_like(order)
    turn[order] = ranks(values[order])
    return turn


def poured(lies: IntArray, able: BoolArray, bounds: IntArray, amount: IntArray) -> IntArray:
    """Return how many of the `amount` (stretches,) each candidate gets, so that each stretch ends as even as possible.

    `lies` (candidates,) is the present load, `able` marks the candidates that may get any, and `bounds`
    (stretches + 1,) are the starts of the stretches; none is empty. The amount of a stretch without able candidates is
    lost.
    """
    sizes = np.diff(bounds)
    there = np.add.reduceat(able.astype(np.int64), bounds[:-1])
    amount = np.where(there > 0, amount, 0)
    low = np.full(len(sizes), int(lies[able].min(initial=0)))
    high = np.full(len(sizes), int(lies[able].max(initial=0))) + amount + 1
    while (high - low > 1).any():
        middle = (low + high) // 2
        volume = np.add.reduceat(np.where(able, np.maximum(np.repeat(middle, sizes) - lies, 0), 0), bounds[:-1])
        low, high = np.where(volume <= amount, middle, low), np.where(volume <= amount, high, middle)
    water = np.repeat(low, sizes)
    given = np.where(able, np.maximum(water - lies, 0), 0)
    left = amount - np.add.reduceat(given, bounds[:-1])
    wet = np.flatnonzero(able & (lies <= water))
    owner = np.repeat(np.arange(len(sizes)), sizes)[wet]
    order = np.lexsort((spaced(wet), owner))
    more = wet[order[ranks(owner[order]) < left[owner[order]]]]
    given[more] += 1
    return given
