"""
Mending: partitions that are not what they should be, made so with the fewest moves, then as even as that allows.

In this order: as few replicas as can be are copied; brokers hold equally many; they lead equally many; the bytes on the
fullest broker are few. A leader that stays goes on leading, and one that goes is followed by a replica that is there
already, unless another one makes the leaders more even.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance.fair_split import fair_windows
from rackspan.core.compliance.fewest_moves import loosened
from rackspan.core.placement.engine.balance.disk_usage import even_bytes
from rackspan.core.placement.engine.balance.leaders import choose_leaders
from rackspan.core.placement.engine.balance.replicas import Replicas, Rules, even_out
from rackspan.core.placement.engine.repair.closest_fair import repair
from rackspan.core.placement.engine.repair.closest_within_skew import repair_within
from rackspan.core.placement.seeds import scrambled
from rackspan.core.topology import IntArray, RackTree

BoolArray = npt.NDArray[np.bool_]

_ORDER = 0x900


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """
    Partitions to be mended under the same rules, as row numbers, shape (partitions,).

    `tree` says which brokers are eligible for them, `size` is their replication factor, `skews` are those of
    `rackspan.core.compliance.allowed_skews`, `preferred` (brokers,) the brokers that should lead.
    """

    tree: RackTree
    size: int
    skews: Mapping[int, tuple[int, bool]]
    preferred: BoolArray
    rows: IntArray


@dataclass(slots=True, eq=False)
class Loads:
    """Replicas, leaders and bytes per broker, shape (brokers,), depth-first. Mending keeps them up to date."""

    replicas: IntArray
    leaders: IntArray
    size_bytes: IntArray

    @classmethod
    def none(cls, tree: RackTree) -> "Loads":
        """Nothing lies anywhere."""
        return cls(*(np.zeros(len(tree), dtype=np.int64) for _ in range(3)))

    def copy(self) -> "Loads":
        """Give the same counts, to be changed apart from these."""
        return Loads(self.replicas.copy(), self.leaders.copy(), self.size_bytes.copy())

    def add(self, placed: IntArray, size_bytes: IntArray) -> None:
        """Count partitions: rows of positions, -1 for none, the leader first; bytes of one replica, -1 for unknown."""
        self._count(placed, size_bytes, 1)

    def remove(self, placed: IntArray, size_bytes: IntArray) -> None:
        """Take partitions off."""
        self._count(placed, size_bytes, -1)

    def cover(self, placed: IntArray) -> None:
        """Raise the counts to what these partitions alone amount to: the counts may be older than they are."""
        own = Loads(*(np.zeros_like(self.replicas) for _ in range(3)))
        own.add(placed, np.zeros(len(placed), dtype=np.int64))
        np.maximum(self.replicas, own.replicas, out=self.replicas)
        np.maximum(self.leaders, own.leaders, out=self.leaders)

    def _count(self, placed: IntArray, size_bytes: IntArray, times: int) -> None:
        row, column = np.nonzero(placed >= 0)
        brokers, count = placed[row, column], len(self.replicas)
        self.replicas += times * np.bincount(brokers, minlength=count)
        self.leaders += times * np.bincount(brokers[column == 0], minlength=count)
        self.size_bytes += times * _bytes(placed, size_bytes, count)


def mend(
    tree: RackTree, tasks: Sequence[Task], current: IntArray, size_bytes: IntArray, loads: Loads, seed: int
) -> IntArray:
    """
    Give each row that a task names its new replicas, the leader first: positions, shape (rows, replicas).

    `current` (rows, replicas) are the positions now, -1 for unknown brokers and beyond the end; `size_bytes` (rows,)
    the bytes of one replica, -1 if unknown. `loads` counts everything on the brokers, these rows included, and is kept
    up to date. A row is -1 throughout where the brokers that are online do not suffice: it stays as it is.
    """
    count = len(current)
    placed = np.full((count, max((task.size for task in tasks), default=0)), -1, dtype=np.int64)
    held = np.full_like(current, -1)
    rule, fair = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    for number, task in enumerate(tasks):
        rows = task.rows
        loads.remove(current[rows], size_bytes[rows])
        held[rows] = _can_stay(current[rows], task.tree)
        rule[rows], fair[rows] = number, not loosened(task.skews)
        placed[rows, : task.size] = _repaired(task, held[rows], loads.replicas, seed)
        stuck = rows[placed[rows, 0] < 0]
        loads.add(current[stuck], size_bytes[stuck])
    done = np.flatnonzero((placed >= 0).any(axis=1))
    if not len(done):
        return placed
    even = done[fair[done]]
    rules = [Rules(task.tree, fair_windows(task.tree, task.size)) for task in tasks]
    graph = Replicas(rules, rule[even], placed[even], held[even], np.ones(len(even), dtype=bool), loads.replicas)
    even_out(graph)
    placed[even] = graph.placed
    rows = led(tree, tasks, rule[done], placed[done], current[done], loads.leaders, seed)
    loads.leaders += np.bincount(rows[:, 0], minlength=len(tree))
    loads.size_bytes += _bytes(rows, size_bytes[done], len(tree))
    if fair[done].all() and (size_bytes[done] > 0).any():
        graph = Replicas(rules, rule[done], rows, held[done], np.ones(len(done), dtype=bool), loads.replicas)
        even_bytes(graph, size_bytes[done], loads.size_bytes)
        rows = graph.placed
    placed[done] = with_followers_as_before(rows, current[done], seed)
    return placed


def _can_stay(current: IntArray, tree: RackTree) -> IntArray:
    """Replicas on eligible brokers, each broker once; -1 for the others."""
    held = np.where((current >= 0) & np.append(tree.eligible, [False])[current], current, -1)
    for column in range(1, held.shape[1]):
        again = (held[:, :column] == held[:, column, None]).any(axis=1)
        held[again, column] = -1
    return held


def _repaired(task: Task, held: IntArray, load: IntArray, seed: int) -> IntArray:
    if loosened(task.skews):
        return repair_within(task.tree, task.size, list(held), task.skews, load, seed)
    return repair(task.tree, fair_windows(task.tree, task.size), held, load, seed)


def led(
    tree: RackTree,
    tasks: Sequence[Task],
    rule: IntArray,
    placed: IntArray,
    current: IntArray,
    leaders: IntArray,
    seed: int,
) -> IntArray:
    """
    The rows with their leader first: the one of now, else one that lies there already, else any.

    Of those that should lead, one that is online; where none is, one that will lead when it is back.
    Another one than that only where it makes the leaders per broker more even.
    """
    preferred = np.array([np.append(task.preferred, [False]) for task in tasks])  # the last is what -1 finds
    wanted = preferred[rule[:, None], placed]
    allowed = wanted & np.append(tree.online, [False])[placed]
    allowed |= ~allowed.any(axis=1, keepdims=True) & wanted
    allowed |= ~allowed.any(axis=1, keepdims=True) & (placed >= 0)
    stays = allowed & np.logical_or.reduce([placed == column[:, None] for column in current.T], initial=False)
    leads = stays & (placed == current[:, :1]) if current.shape[1] else stays
    first = np.where(
        leads.any(axis=1, keepdims=True), leads, np.where(stays.any(axis=1, keepdims=True), stays, allowed)
    )
    lead = choose_leaders(tree, placed.T, allowed.T, leaders, seed, first.T)
    rest = np.argsort(np.arange(placed.shape[1]) != lead[:, None], axis=1, kind="stable")
    return np.take_along_axis(placed, rest, axis=1)


def with_followers_as_before(led: IntArray, current: IntArray, seed: int) -> IntArray:
    """The followers in the order they had, new ones behind them in an order that varies."""
    rank = np.full(led.shape, current.shape[1] + 1.0)
    rank += scrambled(seed, _ORDER, np.arange(led.size)).reshape(led.shape) / (1 << 32)
    for column in range(current.shape[1] - 1, -1, -1):
        rank[(led == current[:, column, None]) & (led >= 0)] = column
    rank[:, 0] = -1
    rank[led < 0] = np.inf
    return np.take_along_axis(led, np.argsort(rank, axis=1, kind="stable"), axis=1)


def _bytes(placed: IntArray, size_bytes: IntArray, brokers: int) -> IntArray:
    row, column = np.nonzero(placed >= 0)
    known = np.maximum(size_bytes[row], 0)
    return np.bincount(placed[row, column], weights=known, minlength=brokers).astype(np.int64)
