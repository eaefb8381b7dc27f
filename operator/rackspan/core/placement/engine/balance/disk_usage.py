"""Disk usage: fewer bytes on the fullest brokers, without any other cost.

Two brokers with different numbers of bytes exchange two followers, if each follower could be on the other broker.
Or one follower goes to a broker with one replica fewer. The number of moves, the evenness of replicas and the leaders
do not change. In each round many pairs of brokers do this at once, those with the most bytes first. The partner of a
broker is drawn for one of its replicas, by the deficits of brokers in bytes. A round examines only some replicas of a
broker, so its cost grows with brokers and not with partitions. A better result is a packing problem, which is hard.
"""

from dataclasses import dataclass

import numpy as np

from rackspan.core.placement.engine.balance.replicas import PlacedReplicas
from rackspan.core.placement.engine.loads import ByteSums
from rackspan.core.placement.engine.weighted_choice import sorted_by
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import BoolArray, IntArray

_ROUNDS = 32
_IDLE = 6  # consecutive rounds without a change after which the search ends
_SAMPLE = 24  # replicas of a broker that are examined in a round
_ASKED = 4  # of these, the ones that draw a broker
_FULLEST, _DRAWS = 16, 8  # brokers that are examined more closely, and the draws of each of their replicas
_PART = 1 << 20  # deficits in bytes are scaled to at most this number, so that their sum does not overflow
_SORTED = 8  # rounds after which followers are sorted by broker again, if any moved without an exchange
_PICK = 0xA00


def even_bytes(replicas: PlacedReplicas, size_bytes: IntArray, load: ByteSums) -> None:
    """Lower the bytes of the fullest brokers by exchanging followers (all columns but the first).

    `size_bytes` (partitions,) are the bytes of one replica, -1 if unknown. `load` (brokers,), in bytes, is updated.
    """
    sizes = np.maximum(size_bytes, 0)
    shelf, idle, given = _Shelf.of(replicas), 0, 0
    for turn in range(_ROUNDS):
        swapped, moved = _round(replicas, shelf, sizes, load, turn)
        idle, given = 0 if swapped or moved else idle + 1, given + moved
        if idle == _IDLE or not len(shelf.row):
            return
        if given and turn % _SORTED == _SORTED - 1:
            shelf, given = _Shelf.of(replicas), 0


@dataclass(frozen=True, slots=True, eq=False)
class _Shelf:
    """Followers that may move, sorted by broker: row, column and broker of each, and where those of each broker begin.

    A follower that moved without an exchange keeps its place, and is ignored, until all are sorted again.
    """

    row: IntArray
    column: IntArray
    broker: IntArray
    first: IntArray

    @classmethod
    def of(cls, replicas: PlacedReplicas) -> "_Shelf":
        row, column = replicas.movable()
        row, column = row[column > 0], column[column > 0]
        holder = replicas.placed[row, column]
        order = sorted_by(holder, len(replicas.load))
        count = np.bincount(holder, minlength=len(replicas.load))
        return cls(row[order], column[order], holder[order], np.concatenate([[0], np.cumsum(count)]))

    def some(self, brokers: IntArray, seed: int) -> IntArray:
        """Return some followers of each broker as places on the shelf, padded with -1; shape (brokers, most)."""
        count = self.first[brokers + 1] - self.first[brokers]
        width = min(_SAMPLE, int(count.max(initial=0)))
        start = scrambled(seed, _PICK, brokers) % np.maximum(count, 1)
        nth = np.arange(width)
        at = self.first[brokers][:, None] + (start[:, None] + nth) % np.maximum(count, 1)[:, None]
        at = np.where(nth < count[:, None], at, -1)
        places: IntArray = np.where(np.append(self.broker, [-1])[at] == brokers[:, None], at, -1)
        return places

    def swap(self, one: IntArray, other: IntArray) -> None:
        """Exchange followers between two places."""
        for part in (self.row, self.column):
            part[one], part[other] = part[other], part[one]


def _round(replicas: PlacedReplicas, shelf: _Shelf, sizes: IntArray, load: ByteSums, turn: int) -> tuple[int, int]:
    """Let pairs of brokers make their best exchange. Return the number of exchanges, and of moves without a return."""
    giver, taker = _pairs(replicas, shelf, load, turn)
    if not len(giver):
        return 0, 0
    out, back = shelf.some(giver, turn), shelf.some(taker, turn)
    out_fits, back_fits = _fits(replicas, shelf, out, taker), _fits(replicas, shelf, back, giver)
    # Another option is to get nothing in return, if replicas per broker stay equally even.
    alone = replicas.load[giver] == replicas.load[taker] + 1
    back = np.concatenate([back, np.full((len(giver), 1), -1)], axis=1)
    back_fits = np.concatenate([back_fits, alone[:, None]], axis=1)
    weight = np.append(sizes[shelf.row], [0])
    row = np.append(shelf.row, [-1])
    eased = weight[out][:, :, None] - weight[back][:, None, :]
    fits = out_fits[:, :, None] & back_fits[:, None, :] & (row[out][:, :, None] != row[back][:, None, :])
    apart = (load[giver] - load[taker])[:, None, None]
    better = np.where(fits & (eased > 0) & (eased < apart), np.minimum(eased, apart - eased), 0)
    better = better.reshape(len(giver), -1)
    gain = better.max(axis=1, initial=0)
    pair = _best(giver, taker, gain, load)
    which, other = np.divmod(better[pair].argmax(axis=1), back.shape[1])
    leaving, coming = out[pair, which], back[pair, other]
    pair, leaving, coming = _apart(pair, leaving, coming, row)
    gives = coming < 0
    _hand_over(replicas, shelf, leaving, taker[pair])
    _hand_over(replicas, shelf, coming[~gives], giver[pair[~gives]])
    change = weight[leaving] - weight[coming]
    load[giver[pair]] -= change
    load[taker[pair]] += change
    replicas.load[giver[pair[gives]]] -= 1
    replicas.load[taker[pair[gives]]] += 1
    shelf.swap(leaving[~gives], coming[~gives])
    shelf.broker[leaving[gives]] = taker[pair[gives]]
    moved = int(np.count_nonzero(gives))
    return len(pair) - moved, moved


def _pairs(replicas: PlacedReplicas, shelf: _Shelf, load: ByteSums, turn: int) -> tuple[IntArray, IntArray]:
    """Return pairs of a broker with many bytes and a broker with fewer that one of its replicas could go to.

    Rounds alternate: all brokers above the mean, each with a few below it, then the fullest, each with many others.
    """
    held = np.diff(shelf.first) > 0
    giver = np.flatnonzero(held & (load > load.mean()))
    giver = giver[np.argsort(-load[giver], kind="stable")]
    upto, draws = load.mean(), 1
    if turn % 2:
        giver, draws = giver[:_FULLEST], _DRAWS
        upto = load.max()
    deficit = np.maximum(upto - load, 0)
    deficit[giver] = 0
    places = shelf.some(giver, turn)[:, :_ASKED]
    at = np.repeat(places[places >= 0], draws)
    giver = np.repeat(giver[np.nonzero(places >= 0)[0]], draws)
    deficit = np.ceil(deficit * _PART / (deficit.max(initial=0) or 1)).astype(np.int64)
    fraction = scrambled(turn, _PICK, np.arange(len(at))) / (1 << 32)
    taker = replicas.drawn(shelf.row[at], shelf.column[at], deficit, fraction)
    pairs = np.unique(np.stack([giver, taker])[:, taker >= 0], axis=1)
    return pairs[0], pairs[1]


def _best(giver: IntArray, taker: IntArray, gain: ByteSums, load: ByteSums) -> IntArray:
    """Return the pairs that gain most, no broker twice, those with the fullest brokers first."""
    order = np.lexsort((-gain, -load[giver]))
    order = order[gain[order] > 0]
    for brokers in (giver, taker):
        order = order[np.sort(np.unique(brokers[order], return_index=True)[1])]
    return order


def _fits(replicas: PlacedReplicas, shelf: _Shelf, places: IntArray, broker: IntArray) -> BoolArray:
    """Return which of the followers at these places could be on the broker of their line instead."""
    line, nth = np.nonzero(places >= 0)
    at = places[line, nth]
    fits = np.zeros(places.shape, dtype=bool)
    fits[line, nth] = replicas.fits(shelf.row[at], shelf.column[at], broker[line])
    return fits


def _apart(pair: IntArray, leaving: IntArray, coming: IntArray, row: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Drop pairs that touch a partition of an earlier pair, because their exchange may no longer fit."""
    touched = np.stack([row[leaving], np.where(coming < 0, row[leaving], row[coming])], axis=1).ravel()
    first = np.unique(touched, return_index=True)[1]
    ahead = np.zeros(len(touched), dtype=bool)
    ahead[first] = True
    ahead[1::2] |= touched[1::2] == touched[::2]
    free = ahead.reshape(-1, 2).all(axis=1)
    return pair[free], leaving[free], coming[free]


def _hand_over(replicas: PlacedReplicas, shelf: _Shelf, places: IntArray, broker: IntArray) -> None:
    replicas.placed[shelf.row[places], shelf.column[places]] = broker
