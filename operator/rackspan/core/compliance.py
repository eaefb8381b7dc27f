"""
Judging placements: is every domain's split fair, where is it not, and how many moves would mend it.

A placement is compliant when every domain that holds replicas of a partition splits them fairly among its children,
no broker holds two, and each broker is one the tree knows and finds eligible. A broker that is offline still counts:
what lies on it is not out of place.

Where the racks of some brokers are not known and those of others are, a partition's verdict is unknown if it has a
replica on such a broker, or if it depends on which of the known domains such a broker stands in. More capacity never
makes an unfair split fair, so what is unfair over the brokers that are known is so wherever the others stand, and what
is fair with one more broker in every domain is fair wherever they stand.

All partitions of one replication factor are judged at once. A first pass compares each replica's domain with the
window of the fair split, column by column; only partitions that fail are looked at in detail.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from heapq import merge
from itertools import islice

import numpy as np
import numpy.typing as npt

from rackspan.core.fairness import fair_windows
from rackspan.core.moves import holding, most_kept_by
from rackspan.core.placement.model import Placement, Spread, Unsatisfiable
from rackspan.core.topology import Broker, IntArray, Level, RackTree, domain_name

BoolArray = npt.NDArray[np.bool_]
BROKER_LEVEL = "broker"
_NONE = -1  # beyond the end of a shorter row
_BLOCK = 1 << 22  # cells of the largest table of partitions and brokers held at once
_BEYOND_IDS = 1 << 31  # broker ids are of 32 bits


class Reason(StrEnum):
    """Why a partition is out of compliance."""

    TOO_MANY_REPLICAS = "TooManyReplicas"
    BROKER_NOT_ELIGIBLE = "BrokerNotEligible"
    BROKER_UNKNOWN = "BrokerUnknown"
    BROKER_REPEATED = "BrokerRepeated"


REASONS = tuple(Reason)


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One domain that holds `excess` replicas of a partition too many for those that the domain above it holds.

    Where any one of several domains has to give a replica away, each of them holds one too many.

    For findings about a single broker `level` is `broker` and `domain` the broker's id.
    """

    partition: int
    level: str
    domain: str
    reason: Reason
    excess: int


@dataclass(frozen=True, slots=True, eq=False)
class FindingColumns:
    """
    Findings as parallel arrays of shape (findings,), by partition.

    `reason` is an index into `REASONS`. `level` is an index into the tree's levels and `domain` one into that level's
    domains; for findings about a single broker `level` is the number of levels and `domain` the broker's id.
    """

    partition: IntArray
    reason: IntArray
    level: IntArray
    domain: IntArray
    excess: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Compliance:
    """
    The verdict on the partitions of a topic.

    `broken` and `moves_of`, shape (partitions,): out of compliance or not, and the fewest moves that would mend it.
    `unfair` counts per level the partitions with an unfair split there. `unknown`, shape (partitions,): neither one nor
    the other can be said, because the rack of a broker is not known.
    """

    broken: BoolArray
    moves_of: IntArray
    unfair: dict[str, int]
    unknown: BoolArray
    _details: "tuple[_Detail, ...]" = field(repr=False, default=())

    @property
    def partitions(self) -> int:
        """How many partitions there are a verdict on."""
        return len(self.broken) - self.undecided

    @property
    def undecided(self) -> int:
        """How many partitions cannot be judged."""
        return int(np.count_nonzero(self.unknown))

    @property
    def non_compliant(self) -> int:
        """How many partitions are out of compliance."""
        return int(np.count_nonzero(self.broken))

    @property
    def compliant(self) -> bool:
        """Whether all partitions are known to be compliant."""
        return not (self.broken.any() or self.unknown.any())

    @property
    def moves(self) -> int:
        """The fewest moves that bring all partitions into compliance: no plan can do with less."""
        return int(self.moves_of.sum())

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, by partition and level."""
        return tuple(self.each_finding())

    def sample(self, most: int) -> tuple[Finding, ...]:
        """Give the first `most` findings."""
        return tuple(islice(self.each_finding(), most))

    def each_finding(self) -> Iterator[Finding]:
        """Give all findings, by partition and level, one after the other."""
        return merge(*(detail.findings() for detail in self._details), key=lambda finding: finding.partition)

    @property
    def columns(self) -> FindingColumns:
        """All findings in the same order, as arrays."""
        blocks = [block for detail in self._details for block in detail.columns()]
        stacked = np.concatenate(blocks, axis=1) if blocks else np.zeros((5, 0), dtype=np.int64)
        return FindingColumns(*stacked[:, np.argsort(stacked[0], kind="stable")])


@dataclass(slots=True, eq=False)
class _Verdicts:
    broken: BoolArray
    moves_of: IntArray
    unfair: dict[str, int]
    details: "list[_Detail]"


def judge(
    tree: RackTree,
    replicas: Sequence[Sequence[int]] | Placement | npt.NDArray[np.integer],
    spread: Iterable[Spread] = (),
) -> Compliance:
    """
    Judge the partitions of a topic; `replicas` are broker ids, outer index the partition.

    Partitions may differ in replication factor; rows of an array are padded with -1. Raises
    TopologyError for a spread over a level the tree does not have.
    """
    skews = allowed_skews(tree, spread)
    rows = replicas if isinstance(replicas, Placement | np.ndarray) else Placement(replicas)
    count = len(rows)
    verdicts, unknown = _no_verdicts(tree, count), np.zeros(count, dtype=bool)
    readings = _readings(tree)
    for partitions, matrix in _by_size(rows):
        if not matrix.shape[1]:
            continue
        if readings is None:
            _judge_size(tree, partitions, tree.positions(matrix), matrix, skews, verdicts)
            continue
        lost = _any_of(np.isin(matrix, readings.missing))
        unknown[partitions[lost]] = True
        at, known = partitions[~lost], matrix[~lost]
        doubts = _no_verdicts(tree, count)
        _judge_size(readings.least, at, readings.least.positions(known), known, skews, verdicts)
        _judge_size(readings.most, at, readings.most.positions(known), known, skews, doubts)
        unknown |= doubts.broken & ~verdicts.broken
    verdicts.details.sort(key=lambda detail: int(detail.partitions[0]))
    return Compliance(verdicts.broken, verdicts.moves_of, verdicts.unfair, unknown, tuple(verdicts.details))


def _no_verdicts(tree: RackTree, count: int) -> _Verdicts:
    return _Verdicts(np.zeros(count, dtype=bool), np.zeros(count, dtype=np.int64), dict.fromkeys(tree.levels, 0), [])


@dataclass(frozen=True, slots=True)
class _Readings:
    """A tree with gaps, read in two ways: the least room that its domains may have, and the most."""

    missing: tuple[int, ...]
    least: RackTree
    most: RackTree


@lru_cache(maxsize=512)
def _readings(tree: RackTree) -> _Readings | None:
    """None where no broker lacks a rack that others have. Domains are the same, in the same order, in both readings."""
    missing = tree.missing_racks
    if not missing:
        return None
    least = RackTree(tree.levels, tuple(replace(b, eligible=b.eligible and b.rack is not None) for b in tree.brokers))
    usable = sorted({broker.rack for broker in least.brokers if broker.rack is not None and broker.eligible})
    more = (Broker(_BEYOND_IDS + at, rack) for at, rack in enumerate(usable))
    return _Readings(missing, least, RackTree(tree.levels, (*least.brokers, *more)))


def allowed_skews(tree: RackTree, spread: Iterable[Spread]) -> dict[int, tuple[int, bool]]:
    """
    Skews by index of the level in `tree.nodes`, and whether full domains count as well.

    Raises TopologyError for a level that the tree does not have.
    """
    skews = {}
    for wish in spread:
        tree.level(wish.level)
        strict = wish.when_unsatisfiable is Unsatisfiable.REFUSE
        skews[tree.levels.index(wish.level) + 1] = (wish.max_skew, strict)
    return skews


def _by_size(rows: Placement | npt.NDArray[np.integer]) -> Iterator[tuple[IntArray, npt.NDArray[np.integer]]]:
    """Partitions of each replication factor, and their replicas as a matrix."""
    if isinstance(rows, np.ndarray):
        sizes = np.count_nonzero(rows != _NONE, axis=1)
        for size in np.unique(sizes).tolist():
            at = np.flatnonzero(sizes == size)
            yield at, rows[:, :size] if len(at) == len(rows) else rows[at, :size]
        return
    try:
        yield np.arange(len(rows)), rows.matrix
    except ValueError:
        sizes = np.array([len(row) for row in rows.partitions])
        for size in np.unique(sizes):
            at = np.flatnonzero(sizes == size)
            yield at, np.array([rows.partitions[partition] for partition in at], dtype=np.int64).reshape(len(at), -1)


def _judge_size(
    tree: RackTree,
    partitions: IntArray,
    placed: IntArray,
    ids: npt.NDArray[np.integer],
    skews: dict[int, tuple[int, bool]],
    verdicts: _Verdicts,
) -> None:
    suspects = np.flatnonzero(_suspicious(tree, placed, skews))
    block = max(1, _BLOCK // max(len(tree), 1))
    for start in range(0, len(suspects), block):
        at = suspects[start : start + block]
        detail = _detail(tree, partitions[at], placed[at], ids[at], skews)
        broken = detail.broken
        verdicts.broken[detail.partitions] = broken
        verdicts.moves_of[detail.partitions] = np.where(broken, detail.moves, 0)
        for level, flags in zip(tree.levels, detail.unfair, strict=False):
            verdicts.unfair[level] += int(np.count_nonzero(flags))
        if broken.any():
            verdicts.details.append(detail)


def _suspicious(tree: RackTree, placed: IntArray, skews: dict[int, tuple[int, bool]]) -> BoolArray:
    """Partitions that do not keep to the windows of the fair split."""
    count, size = placed.shape
    if size > tree.capacity or any(strict for _, strict in skews.values()):
        return np.ones(count, dtype=bool)
    columns = list(np.ascontiguousarray(placed.T))
    bad = np.zeros(count, dtype=bool)
    for column in columns:
        bad |= (column < 0) | ~tree.eligible[column]
    windows = fair_windows(tree, size)
    for level, low, high in zip(tree.nodes[1:], windows.low[1:], windows.high[1:], strict=True):
        domains = [level.of_broker[column] for column in columns]
        same = np.ones((size, count), dtype=np.int32)
        first = np.ones((size, count), dtype=bool)
        for one in range(size):
            for other in range(one):
                equal = domains[one] == domains[other]
                same[one] += equal
                same[other] += equal
                first[one] &= ~equal
        due = np.zeros(count, dtype=np.int64)
        for at, domain in enumerate(domains):
            bad |= same[at] > high[domain]
            if low.any():
                due += np.where(first[at], np.minimum(same[at], low[domain]), 0)
        bad |= due < low.sum()
    return bad


@dataclass(frozen=True, slots=True, eq=False)
class _Detail:
    """Partitions of one replication factor, looked at domain by domain."""

    tree: RackTree
    partitions: IntArray
    ids: npt.NDArray[np.integer]
    faults: tuple[tuple[Reason, BoolArray], ...]  # per reason, shape (partitions, replicas)
    excess: tuple[IntArray, ...]  # per named level, shape (partitions, domains)
    moves: IntArray

    @property
    def unfair(self) -> tuple[BoolArray, ...]:
        return tuple(_any_of(excess > 0) for excess in self.excess)

    @property
    def broken(self) -> BoolArray:
        return _any_of(np.column_stack([*(_any_of(fault) for _, fault in self.faults), *self.unfair]))

    def findings(self) -> Iterator[Finding]:
        for row in np.flatnonzero(self.broken):
            partition = int(self.partitions[row])
            for reason, fault in self.faults:
                for column in np.flatnonzero(fault[row]):
                    yield Finding(partition, BROKER_LEVEL, str(int(self.ids[row, column])), reason, 1)
            for level, excess in zip(self.tree.nodes[1:], self.excess, strict=False):
                for domain in np.flatnonzero(excess[row] > 0):
                    name = domain_name(level.paths[domain])
                    yield Finding(partition, level.name, name, Reason.TOO_MANY_REPLICAS, int(excess[row, domain]))

    def columns(self) -> Iterator[IntArray]:
        """Partition, reason, level, domain and excess, shape (5, findings), of each kind of finding."""
        broken = self.broken
        for reason, fault in self.faults:
            row, column = np.nonzero(fault & broken[:, None])
            yield self._block(row, REASONS.index(reason), len(self.tree.levels), self.ids[row, column], 1)
        for level, excess in enumerate(self.excess):
            row, domain = np.nonzero((excess > 0) & broken[:, None])
            yield self._block(row, REASONS.index(Reason.TOO_MANY_REPLICAS), level, domain, excess[row, domain])

    def _block(
        self, row: IntArray, reason: int, level: int, domain: npt.NDArray[np.integer], excess: IntArray | int
    ) -> IntArray:
        columns = (self.partitions[row], reason, level, domain, excess)
        return np.array([np.broadcast_to(column, row.shape) for column in columns], dtype=np.int64)


def _any_of(flags: BoolArray) -> BoolArray:
    """Whether any flag of a row is set."""
    found: BoolArray = np.logical_or.reduce(flags, axis=1)
    return found


def _most(above: Level, level: Level, held: IntArray, skew: int, *, strict: bool) -> IntArray:
    """
    Most replicas that each domain may hold of those that the domain above it holds now, shape (partitions, domains).

    `held` replicas are in each. The others beside a domain have to hold at most `skew` fewer, unless they are full.
    """
    shared = np.add.reduceat(held, above.first_child, axis=1)[:, level.parent]
    most = np.zeros_like(held)
    for size in range(1, int(shared.max(initial=0)) + 1):
        least = max(size - skew, 0)
        beside = np.where(level.capacity > 0, least, 0) if strict else np.minimum(level.capacity, least)
        needed = size + np.add.reduceat(beside, above.first_child)[level.parent] - beside
        most = np.where(needed <= shared, size, most)
    return most


def _detail(
    tree: RackTree,
    partitions: IntArray,
    placed: IntArray,
    ids: npt.NDArray[np.integer],
    skews: dict[int, tuple[int, bool]],
) -> _Detail:
    count, size = placed.shape
    unknown = placed < 0
    if not len(tree):
        return _Detail(tree, partitions, ids, ((Reason.BROKER_UNKNOWN, unknown),), (), np.zeros(count, dtype=np.int64))
    banned = ~unknown & ~tree.eligible[placed]
    repeated = np.zeros(placed.shape, dtype=bool)
    for later in range(1, size):
        repeated[:, later] = _any_of(ids[:, :later] == ids[:, later, None])
    holds = holding(tree, placed) & tree.eligible
    excess = []
    for at, (above, level) in enumerate(zip(tree.nodes[:-2], tree.nodes[1:-1], strict=True), start=1):
        skew, strict = skews.get(at, (1, False))
        held = np.add.reduceat(holds, level.first_broker, axis=1, dtype=np.int64)
        counted = (level.capacity > 0) if strict else (held < level.capacity)
        least = np.minimum.reduceat(np.where(counted, held, size + 1), above.first_child, axis=1)
        unfair = held - least[:, level.parent] > skew
        excess.append(np.where(unfair, np.maximum(held - _most(above, level, held, skew, strict=strict), 1), 0))
    wanted = min(size, tree.capacity)
    kept = most_kept_by(tree, wanted, holds, skews)
    faults = (
        (Reason.BROKER_UNKNOWN, unknown),
        (Reason.BROKER_NOT_ELIGIBLE, banned),
        (Reason.BROKER_REPEATED, repeated),
    )
    return _Detail(tree, partitions, ids, faults, tuple(excess), wanted - kept)
