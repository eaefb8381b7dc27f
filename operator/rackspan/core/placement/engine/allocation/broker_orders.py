"""
Orders of the brokers, one after another, in which neighbours change as much as they can.

Every order is depth-first: what is in one domain stays together. The children of a domain stand around a clock with a
prime number of hours, and child `x` is at hour `x * t` in order `t`. So the distance of any two children goes through
all hours before it repeats, like the pairings of a round-robin tournament; and since each domain's clock is turned by
an amount that depends on the domain's own place, the distance to the children of another domain does, too. Once half of
the clock is used up, since the other half repeats it backwards, the children are numbered anew: by the inverses of
`x + c` for a number `c` that is hashed for each domain.
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
_HOUR_BITS = 10  # what must be left for hours in a word, else it takes two
_NUMBER, _AGAIN, _TURN = 0x000, 0x100, 0x200  # purposes of hashes


class Orders:
    """The orders of the brokers of a tree."""

    def __init__(self, tree: RackTree, seed: int) -> None:
        levels = [tree.nodes[0], *(below for above, below in pairwise(tree.nodes) if len(below) > len(above))]
        self._clocks = [_Clock.of(above, below, seed, depth) for depth, (above, below) in enumerate(pairwise(levels))]

    def laid_out(self, first: int, brokers: IntArray) -> _Words:
        """Sort each row of `brokers`, positions of shape (orders, any), by the next order from number `first` on."""
        keys, position = self._keys(np.arange(first, first + len(brokers)))
        at = np.empty(brokers.shape, dtype=np.int64)
        np.add(brokers, np.arange(0, keys.size, keys.shape[1])[:, None], out=at)
        laid = keys.reshape(-1).take(at)
        laid.sort(axis=1)
        laid &= position
        return laid

    def _keys(self, numbers: IntArray) -> tuple[_Words, np.unsignedinteger]:
        """Words that sort brokers, shape (orders, brokers), and which bits of a word are the broker's position."""
        keys: _Words = np.zeros((len(numbers), 1), dtype=np.uint32)
        position: np.unsignedinteger = np.uint32(0)
        rows = np.arange(len(numbers))[:, None]
        for clock in self._clocks:
            keys.sort(axis=1)
            place = np.empty(keys.shape, dtype=np.uint32)
            place[rows, keys & position] = np.arange(keys.shape[1], dtype=np.uint32)
            keys, position = clock.keys(numbers, place)
        return keys, position


@dataclass(frozen=True, slots=True, eq=False)
class _Clock:
    """How the domains of one level stand below those of the level above."""

    parent: IntArray
    number: IntArray  # (domains,) of each child in its domain, below `hours`
    again: IntArray  # (hours,) the inverse of each number: how children are numbered anew
    domains: int  # in the level above
    seed: int
    depth: int

    @classmethod
    def of(cls, above: Level, below: Level, seed: int, depth: int) -> "_Clock":
        sizes = np.diff(above.first_child, append=len(below))
        hashes = scrambled(seed, _NUMBER + depth, np.arange(len(below)))
        number = np.empty(len(below), dtype=np.int64)
        number[np.lexsort((hashes, below.parent))] = np.arange(len(below)) - np.repeat(above.first_child, sizes)
        return cls(below.parent, number, _inverses(int(sizes.max())), len(above), seed, depth)

    def keys(self, numbers: IntArray, place: npt.NDArray[np.uint32]) -> tuple[_Words, np.unsignedinteger]:
        """
        Words that sort by the place of the domain, then by hour, then by position, which can be read there.

        `place` (orders, domains) says where each domain of the level above stands in each order.
        """
        low, high = (len(self.parent) - 1).bit_length(), (self.domains - 1).bit_length()
        hours, places = self._hours(numbers, place)
        wide = low + high + _HOUR_BITS > _WORD
        word: type[np.unsignedinteger] = np.uint64 if wide else np.uint32
        bits = 2 * _WORD if wide else _WORD
        keys: _Words = hours.astype(word)
        keys <<= word(bits - _WORD)
        keys >>= word(high)
        keys |= places.astype(word) << word(bits - high) if high else word(0)
        position = word((1 << low) - 1)
        keys &= ~position
        keys |= np.arange(len(self.parent), dtype=word)
        return keys, position

    def _hours(self, numbers: IntArray, place: npt.NDArray[np.uint32]) -> tuple[_Words, _Words]:
        """The hour of each child, in parts of a whole word, and its domain's place, shapes (orders, children)."""
        size = len(self.again)
        hour = np.uint32((1 << _WORD) // size)
        turn, step = np.divmod(numbers, max(size // 2, 1))
        turns, at = np.arange(turn[0], turn[-1] + 1), turn - turn[0]
        shift = scrambled(self.seed, _AGAIN + self.depth, turns[:, None] * self.domains + np.arange(self.domains))
        numbered = self.again[(self.number + (shift % np.uint32(size))[:, self.parent]) % size]
        hours = (numbered.astype(np.uint32) * hour)[at]
        hours *= (step + 1).astype(np.uint32)[:, None]
        if self.domains == 1:
            return hours, place
        places = place.take(self.parent, axis=1)
        turned = scrambled(self.seed, _TURN + self.depth, turns) % np.uint32(size - 1) + np.uint32(1)
        hours += places * (turned * hour)[at][:, None]
        return hours, places


@lru_cache(maxsize=256)
def _inverses(least: int) -> IntArray:
    """The inverse of each number modulo the smallest prime that is no less than `least`; that of 0 be 0."""
    prime = max(least, 2)
    while any(prime % factor == 0 for factor in range(2, int(prime**0.5) + 1)):
        prime += 1
    inverses = np.array([0, *(pow(number, prime - 2, prime) for number in range(1, prime))])
    inverses.setflags(write=False)
    return inverses
