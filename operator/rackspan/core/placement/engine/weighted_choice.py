"""
Drawing one of many by weight, where each who draws must leave some out.

Candidates stand in a line and each has a weight, so that a number below the sum of the weights names one of them. What
has to be left out are few stretches of the line: their weight is skipped. That takes time in proportion to the
stretches, however many candidates there are.
"""

import numpy as np

from rackspan.core.topology import BoolArray, FloatArray, IntArray

_GOLDEN = (5**0.5 - 1) / 2


def prefix_of(weights: IntArray) -> IntArray:
    """Sums of the weights ahead of each candidate, and of all of them at last."""
    return np.concatenate([[0], np.cumsum(weights)])


def drawn(
    prefix: IntArray,
    low: IntArray,
    high: IntArray,
    first: IntArray,
    last: IntArray,
    fraction: FloatArray,
) -> IntArray:
    """
    Draw for each row one of the candidates from `low` up to but not including `high`, -1 where all have no weight.

    `first` and `last` (rows, stretches) bound the stretches that each row leaves out: apart from each other, in order,
    between `low` and `high`; empty ones may be anywhere. `fraction` (rows,), from 0 up to 1, says which part of the
    remaining weight is meant.
    """
    begin = prefix[first]
    skipped = prefix[last] - begin
    total = prefix[high] - prefix[low] - skipped.sum(axis=1)
    mark = prefix[low] + np.minimum((fraction * total).astype(np.int64), np.maximum(total - 1, 0))
    begin -= np.cumsum(skipped, axis=1) - skipped  # where each stretch begins once those ahead of it are taken out
    mark += np.where(begin <= mark[:, None], skipped, 0).sum(axis=1)
    found: IntArray = np.where(total > 0, np.searchsorted(prefix, mark, side="right") - 1, -1)
    return found


def spaced(numbers: IntArray) -> FloatArray:
    """Fractions from 0 up to 1, those of neighbouring numbers far apart."""
    fractions: FloatArray = np.modf(numbers * _GOLDEN)[0]
    return fractions


def ranks(values: IntArray) -> IntArray:
    """Which of its equals each one is, in order, where equal ones stand together."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return np.arange(len(values)) - np.repeat(starts, np.diff(starts, append=len(values)))


def sorted_by(values: IntArray, limit: int) -> IntArray:
    """Give the order of numbers from 0 up to but not including `limit`, equal ones as they stood."""
    small = values.astype(np.uint16) if limit <= 1 << 16 else values  # numpy sorts these by radix
    return np.argsort(small, kind="stable")


def turns(values: IntArray) -> IntArray:
    """How many equal ones are ahead of each."""
    order = sorted_by(values, int(values.max(initial=0)) + 1)
    turn = np.empty_like(order)
    turn[order] = ranks(values[order])
    return turn


def poured(lies: IntArray, able: BoolArray, bounds: IntArray, amount: IntArray) -> IntArray:
    """
    How many of the `amount` (stretches,) each candidate gets, so that those of a stretch end as even as can be.

    `lies` (candidates,) is there already, `able` says who may get any, and `bounds` (stretches + 1,) where stretches
    begin; none is empty. What is poured into a stretch where nobody is able is lost.
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
