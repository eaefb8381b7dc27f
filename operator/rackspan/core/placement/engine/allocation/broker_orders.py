"""A sequence of orders of the brokers, in which neighbours vary as much as possible.

Every order is depth-first: the brokers of a domain are adjacent. The children of a domain are arranged on a clock with
a prime number of hours, and child `x` is at hour `x * t` in order `t`. So the distance of any two children takes all
values before it repeats, like the pairings of a round-robin tournament. The distance to children of another domain
varies as well, because each domain's clock is turned by an amount that depends on the place of the domain. The second
half of the clock repeats the first half backwards. So after the first half the children get new numbers: the inverses
of `x + c`, with a hashed number `c` for each domain.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, Level, RackTree

_Words = npt.NDArray[np.unsignedinteger]

_WORD = 32  # bits
_HOUR_BITS = 10  # that a word must have left for hours; otherwise a key takes two words
_NUMBER, _AGAIN, _TURN = 0x000, 0x100, 0x200  # purposes of hashes


class Orders:
    """The orders of the brokers of a tree."""

    def __init__(self, tree: RackTree, seed: int) -> None:
        levels = [tree.nodes[0], *(below for above, below in pairwise(tree.nodes) if len(below) > len(above))]
        self._clocks = [_Clock.of(above, below, seed, depth) for depth, (above, below) in enumerate(pairwise(levels))]

    def laid_out(self, first: int, brokers: npt.NDArray[np.integer]) -> _Words:
        """Sort each row of `brokers`, positions of shape (orders, any): row `r` by the order number `first + r`."""
        keys, position = self._keys(np.arange(first, first + len(brokers)))
        at = np.empty(brokers.shape, dtype=np.int64)
        np.add(brokers, np.arange(0, keys.size, keys.shape[1])[:, None], out=at)
        laid = keys.reshape(-1).take(at)
        laid.sort(axis=1)
        laid &= position
        return laid

    def _keys(self, numbers: IntArray) -> tuple[_Words, np.unsignedinteger]:
        """Return words that sort brokers, shape (orders, brokers), and the mask of the broker's position in a word."""
        keys: _Words = np.zeros((len(numbers), 1), dtype=np.uint32)
        position: np.unsignedinteger = np.uint32(0)
        for clock in self._clocks:
            keys.sort(axis=1)
            keys, position = clock.keys(numbers, _inverted(keys & position))
        return keys, position


def _inverted(orders: _Words) -> npt.NDArray[np.uint32]:
    """Return the place of each domain in each order, shape (orders, domains), from the domains in that order."""
    count, domains = orders.shape
    place = np.empty(orders.shape, dtype=np.uint32)
    at = orders + np.arange(0, orders.size, domains)[:, None]
    place.reshape(-1)[at.reshape(-1)] = np.tile(np.arange(domains, dtype=np.uint32), count)
    return place


@dataclass(frozen=True, slots=True, eq=False)
class _Clock:
    """The clocks of one level: how its domains are arranged below the domains of the level above."""

    parent: IntArray
    number: IntArray  # (domains,) the number of each child in its domain, below the number of hours
    again: npt.NDArray[np.uint32]  # (2 * hours,) the inverse of each number, in parts of a whole word, listed twice
    domains: int  # in the level above
    seed: int
    depth: int

    @classmethod
    def of(cls, above: Level, below: Level, seed: int, depth: int) -> "_Clock":
        sizes = np.diff(above.first_child, append=len(below))
        hashes = scrambled(seed, _NUMBER + depth, np.arange(len(below)))
        number = np.empty(len(below), dtype=np.int64)
        number[np.lexsort((hashes, below.parent))] = np.arange(len(below)) - np.repeat(above.first_child, sizes)
        inverses = _inverses(int(sizes.max()))
        again = np.tile(inverses.astype(np.uint32) * _hour(len(inverses)), 2)
        return cls(below.parent, number, again, len(above), seed, depth)

    def keys(self, numbers: IntArray, place: npt.NDArray[np.uint32]) -> tuple[_Words, np.unsignedinteger]:
        """
        Return words that sort by the place of the domain, then by hour, then by position, and the mask of the position.

        `place` (orders, domains) is the place of each domain of the level above in each order.
        """
        low, high = (len(self.parent) - 1).bit_length(), (self.domains - 1).bit_length()
        hours, places = self._hours(numbers, place)
        keys: _Words = hours
        if low + high + _HOUR_BITS > _WORD:
            keys = hours.astype(np.uint64)
            keys <<= np.uint64(_WORD)
            places = places.astype(np.uint64)
        word, bits = keys.dtype.type, 8 * keys.itemsize
        if high:
            keys >>= word(high)
            places <<= word(bits - high)
            keys |= places
        position: np.unsignedinteger = word((1 << low) - 1)
        keys &= ~position
        keys |= np.arange(len(self.parent), dtype=word)
        return keys, position

    def _hours(self, numbers: IntArray, place: npt.NDArray[np.uint32]) -> tuple[_Words, _Words]:
        """Return each child's hour, in parts of a whole word, and its domain's place, shapes (orders, children)."""
        size = len(self.again) // 2
        turn, step = np.divmod(numbers, max(size // 2, 1))
        turns, at = np.arange(turn[0], turn[-1] + 1), turn - turn[0]
        shift = scrambled(self.seed, _AGAIN + self.depth, turns[:, None] * self.domains + np.arange(self.domains))
        shift -= shift // np.uint32(size) * np.uint32(size)  # a remainder, but faster
        number = shift.astype(np.int64)[:, self.parent]
        number += self.number
        hours = self.again.take(number)[at]
        hours *= (step + 1).astype(np.uint32)[:, None]
        if self.domains == 1:
            return hours, place
        places = place[:, self.parent]
        turned = scrambled(self.seed, _TURN + self.depth, turns) % np.uint32(size - 1) + np.uint32(1)
        turned *= _hour(size)
        hours += places * turned[at][:, None]
        return hours, places


def _hour(size: int) -> np.uint32:
    """Return the length of one of `size` hours, in parts of a whole word."""
    return np.uint32((1 << _WORD) // size)


@lru_cache(maxsize=256)
def _inverses(least: int) -> IntArray:
    """Return the inverse of each number modulo the smallest prime that is at least `least`; that of 0 is 0."""
    prime = max(least, 2)
    while any(prime % factor == 0 for factor in range(2, int(prime**0.5) + 1)):
        prime += 1
    inverses = np.array([0, *(pow(number, prime - 2, prime) for number in range(1, prime))])
    inverses.setflags(write=False)
    return inverses
