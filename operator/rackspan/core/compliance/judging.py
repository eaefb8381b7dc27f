"""
Judging placements: is every domain's split fair, where is it not, and how many moves would fix it.

A placement is compliant when every domain that holds replicas of a partition splits them fairly among its children,
no broker holds two, and each broker is one the tree knows and finds eligible. A broker that is offline still counts:
what lies on it is not out of place.

Where the racks of some brokers are not known and those of others are, the compliance of a partition is unknown if it
has a replica on such a broker, or if it depends on which of the known domains such a broker stands in. More capacity
never makes an unfair split fair, so what is unfair over the brokers that are known is so wherever the others stand, and
what is fair with one more broker in every domain is fair wherever they stand.

All partitions of one replication factor are judged at once. A first pass compares each replica's domain with the
window of the fair split, column by column; only partitions that fail are looked at in detail.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance.domain_counts import DomainHoldings, blocks, holdings
from rackspan.core.compliance.fair_split import fair_windows
from rackspan.core.compliance.fewest_moves import fewest_moves, most_kept_within
from rackspan.core.placer import Placement, Spread, Unsatisfiable
from rackspan.core.rack_path import domain_name
from rackspan.core.snapshot import NONE
from rackspan.core.topology import BoolArray, Broker, IntArray, Level, RackTree

BROKER_LEVEL = "broker"
_BEYOND_IDS = 1 << 31  # broker ids are of 32 bits


class ViolationReason(StrEnum):
    """Why a partition is out of compliance."""

    TOO_MANY_REPLICAS = "TooManyReplicas"
    BROKER_NOT_ELIGIBLE = "BrokerNotEligible"
    BROKER_UNKNOWN = "BrokerUnknown"
    BROKER_REPEATED = "BrokerRepeated"


REASONS = tuple(ViolationReason)


@dataclass(frozen=True, slots=True)
class Violation:
    """
    One domain that holds `excess` replicas of a partition too many for those that the domain above it holds.

    Where any one of several domains has to give a replica away, each of them holds one too many.

    For findings about a single broker `level` is `broker` and `domain` the broker's id.
    """

    partition: int
    level: str
    domain: str
    reason: ViolationReason
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
    The compliance of the partitions of a topic.

    `broken` and `moves_of`, shape (partitions,): out of compliance or not, and the fewest moves that would fix it and
    give it the replication factor asked for; where it is `unsatisfiable`, shape (partitions,), no move would, and none
    is counted: too few brokers are eligible.
    `unfair` counts per level the partitions with an unfair split there. `unknown`, shape (partitions,): neither one nor
    the other can be said, because the rack of a broker is not known.
    """

    broken: BoolArray
    moves_of: IntArray
    unfair: dict[str, int]
    unknown: BoolArray
    unsatisfiable: BoolArray
    _levels: tuple[Level, ...] = field(repr=False, default=())
    _found: "tuple[IntArray, ...]" = field(repr=False, default=())

    @property
    def partitions(self) -> int:
        """How many partitions were judged."""
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
        """The fewest moves that bring all partitions to what is asked for: no plan can do with less."""
        return int(self.moves_of.sum())

    @property
    def findings(self) -> tuple[Violation, ...]:
        """All findings, by partition and level."""
        return tuple(self.each_finding())

    def sample(self, most: int) -> tuple[Violation, ...]:
        """Give the first `most` findings."""
        return tuple(islice(self.each_finding(), most))

    def each_finding(self) -> Iterator[Violation]:
        """Give all findings, by partition and level, one after the other."""
        levels = self._levels
        found = self.columns
        for at in range(len(found.partition)):
            columns = (found.partition, found.reason, found.level, found.domain, found.excess)
            partition, reason, level, domain, excess = (int(column[at]) for column in columns)
            where = (
                (levels[level].name, domain_name(levels[level].paths[domain]))
                if level < len(levels)
                else (BROKER_LEVEL, str(domain))
            )
            yield Violation(partition, *where, REASONS[reason], excess)

    @property
    def columns(self) -> FindingColumns:
        """All findings in the same order, as arrays."""
        stacked = np.concatenate(self._found, axis=1) if self._found else np.zeros((5, 0), dtype=np.int64)
        return FindingColumns(*stacked[:, np.argsort(stacked[0], kind="stable")])


@dataclass(slots=True, eq=False)
class _Results:
    broken: BoolArray
    moves_of: IntArray
    unsatisfiable: BoolArray
    unfair: dict[str, int]
    found: list[IntArray]  # findings of some kinds and partitions: those of `FindingColumns`, shape (5, findings)


def judge(
    tree: RackTree,
    replicas: Sequence[Sequence[int]] | Placement | npt.NDArray[np.integer],
    spread: Iterable[Spread] = (),
    replication_factor: int | None = None,
) -> Compliance:
    """
    Judge the partitions of a topic; `replicas` are broker ids, outer index the partition.

    Partitions may differ in replication factor; rows of an array are padded with -1. Each is judged by the replicas
    that it has. Its moves are those to `replication_factor` replicas; None: to as many as it has. Raises TopologyError
    for a spread over a level the tree does not have.
    """
    skews = allowed_skews(tree, spread)
    if not isinstance(replicas, np.ndarray):
        replicas = (replicas if isinstance(replicas, Placement) else Placement(replicas)).padded
    count = len(replicas)
    results, unknown = _no_results(tree, count), np.zeros(count, dtype=bool)
    readings = _readings(tree)
    for partitions, matrix in _by_size(replicas):
        if not matrix.shape[1]:
            continue
        size = matrix.shape[1] if replication_factor is None else replication_factor
        if readings is None:
            _judge_size(tree, partitions, matrix, size, skews, results)
            continue
        lost = np.isin(matrix, readings.missing).any(axis=1)
        unknown[partitions[lost]] = True
        at, known = partitions[~lost], matrix[~lost]
        doubts = _no_results(tree, count)
        _judge_size(readings.least, at, known, size, skews, results)
        _judge_size(readings.most, at, known, size, skews, doubts)
        unknown |= doubts.broken & ~results.broken
        results.unsatisfiable[at] &= doubts.unsatisfiable[at]
    return Compliance(
        results.broken,
        results.moves_of,
        results.unfair,
        unknown,
        results.unsatisfiable,
        tree.nodes[1:-1],
        tuple(results.found),
    )


def _no_results(tree: RackTree, count: int) -> _Results:
    broken, unsatisfiable = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    return _Results(broken, np.zeros(count, dtype=np.int64), unsatisfiable, dict.fromkeys(tree.levels, 0), [])


@dataclass(frozen=True, slots=True)
class _Readings:
    """A tree with gaps, read in two ways: the least room that its domains may have, and the most."""

    missing: tuple[int, ...]
    least: RackTree
    most: RackTree


@lru_cache(maxsize=512)
def _readings(tree: RackTree) -> _Readings | None:
    """None unless some brokers have a rack and others have none. Both readings have the same domains, in one order."""
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
    for rule in spread:
        tree.level(rule.level)
        strict = rule.when_unsatisfiable is Unsatisfiable.REFUSE
        skews[tree.levels.index(rule.level) + 1] = (rule.max_skew, strict)
    return skews


def _by_size(rows: npt.NDArray[np.integer]) -> Iterator[tuple[IntArray, npt.NDArray[np.integer]]]:
    """Partitions of each replication factor, and their replicas as a matrix."""
    sizes = np.count_nonzero(rows != NONE, axis=1)
    for size in np.unique(sizes).tolist():
        at = np.flatnonzero(sizes == size)
        yield at, rows[:, :size] if len(at) == len(rows) else rows[at, :size]


def _judge_size(
    tree: RackTree,
    partitions: IntArray,
    ids: npt.NDArray[np.integer],
    size: int,
    skews: dict[int, tuple[int, bool]],
    results: _Results,
) -> None:
    """Judge partitions of one replication factor; `size` is the one asked for."""
    placed = tree.positions(ids)
    suspects = np.flatnonzero(_suspicious(tree, placed, skews))
    for block in blocks(len(suspects), placed.shape[1]):
        at = suspects[block]
        _look_closer(tree, partitions[at], placed[at], ids[at], skews, results)
    broken = results.broken[partitions]
    wrong = broken | (ids.shape[1] != size)
    if not wrong.any() or not len(tree):
        return
    if _satisfiable(tree, size, skews):
        results.moves_of[partitions[wrong]] = fewest_moves(tree, size, placed[wrong], skews)
    else:
        results.unsatisfiable[partitions[broken]] = True


def _suspicious(tree: RackTree, placed: IntArray, skews: dict[int, tuple[int, bool]]) -> BoolArray:
    """Partitions that do not keep to the windows of the fair split."""
    count, size = placed.shape
    if size > tree.capacity or any(strict for _, strict in skews.values()):
        return np.ones(count, dtype=bool)
    bad = np.zeros(count, dtype=bool)
    for block in blocks(count, size):
        bad[block] = _outside(tree, placed[block])
    return bad


def _outside(tree: RackTree, placed: IntArray) -> BoolArray:
    """The same for some partitions: in the order of brokers, those of a domain stand together."""
    columns = list(np.ascontiguousarray(np.sort(placed, axis=1).T))
    bad: BoolArray = columns[0] < 0
    for column in columns:
        bad |= ~tree.eligible[column]
    windows = fair_windows(tree, len(columns))
    for level, low, high in zip(tree.nodes[1:], windows.low[1:], windows.high[1:], strict=True):
        forced = bool(low.any())
        due, nth = np.zeros(len(bad), dtype=np.int64), np.zeros(len(bad), dtype=np.int64)
        before = np.full(len(bad), -1)
        for column in columns:
            domain = level.of_broker[column]
            nth = np.where(domain == before, nth + 1, 1)
            bad |= nth > high[domain]
            if forced:
                due += nth <= low[domain]
            before = domain
        bad |= due < low.sum()
    return bad


def _most(above: Level, level: Level, held: IntArray, domain: IntArray, skew: int, *, strict: bool) -> IntArray:
    """
    Most replicas that each domain may hold of the `held` ones that the domain above it holds now, shape (domains,).

    The others beside a domain have to hold at most `skew` fewer, unless they are full.
    """
    most = np.zeros_like(held)
    for size in range(1, int(held.max(initial=0)) + 1):
        least = max(size - skew, 0)
        beside = np.where(level.capacity > 0, least, 0) if strict else np.minimum(level.capacity, least)
        needed = size + np.add.reduceat(beside, above.first_child)[level.parent] - beside
        most = np.where(needed[domain] <= held, size, most)
    return most


def _excess(
    above: Level, level: Level, pairs: tuple[DomainHoldings, DomainHoldings], skew: int, *, strict: bool
) -> tuple[IntArray, IntArray, IntArray]:
    """Row, domain and excess wherever the domains of a level hold too many."""
    upper, lower = pairs
    full = np.zeros(len(lower), dtype=bool) if strict else lower.count >= level.capacity[lower.domain]
    some = np.add.reduceat(level.capacity > 0, above.first_child, dtype=np.int64)  # children with any room
    least = np.where(full, np.iinfo(np.int64).max // 2, lower.count)
    least = np.minimum.reduceat(least, upper.first) if len(upper) else least
    among = np.diff(upper.first, append=len(lower))
    least[some[upper.domain] > among] = 0
    parent = np.repeat(np.arange(len(upper)), among)
    unfair = np.flatnonzero(lower.count - least[parent] > skew)
    held, domain = lower.count[unfair], lower.domain[unfair]
    most = _most(above, level, upper.count[parent[unfair]], domain, skew, strict=strict)
    return lower.row[unfair], domain, np.maximum(held - most, 1)


def _look_closer(
    tree: RackTree,
    partitions: IntArray,
    placed: IntArray,
    ids: npt.NDArray[np.integer],
    skews: dict[int, tuple[int, bool]],
    results: _Results,
) -> None:
    """Judge partitions of one replication factor domain by domain."""
    depth = len(tree.levels)
    unknown = placed < 0
    found = [_faults(ViolationReason.BROKER_UNKNOWN, unknown, ids, depth)]
    if len(tree):
        banned = ~unknown & ~tree.eligible[placed]
        found += [
            _faults(ViolationReason.BROKER_NOT_ELIGIBLE, banned, ids, depth),
            _faults(ViolationReason.BROKER_REPEATED, _repeated(ids), ids, depth),
        ]
        held = np.where(unknown | banned, NONE, placed)
        pairs = holdings(tree, held)
        for at, name in enumerate(tree.levels):
            skew, strict = skews.get(at + 1, (1, False))
            above, level = tree.nodes[at : at + 2]
            row, domain, excess = _excess(above, level, (pairs[at], pairs[at + 1]), skew, strict=strict)
            results.unfair[name] += int(np.count_nonzero(np.diff(row, prepend=-1)))
            found.append(_columns(row, ViolationReason.TOO_MANY_REPLICAS, at, domain, excess))
    for part in found:
        part[0] = partitions[part[0]]
        results.broken[part[0]] = True
    results.found += [part for part in found if part.size]


def _satisfiable(tree: RackTree, size: int, skews: dict[int, tuple[int, bool]]) -> bool:
    """Whether any placement of `size` replicas is compliant."""
    if size > tree.capacity:
        return False
    nothing = np.full((1, size), NONE)
    strict = any(strict for _, strict in skews.values())
    return not strict or bool(most_kept_within(tree, size, nothing, skews)[0] >= 0)


def _faults(reason: ViolationReason, fault: BoolArray, ids: npt.NDArray[np.integer], level: int) -> IntArray:
    row, column = np.nonzero(fault)
    return _columns(row, reason, level, ids[row, column], np.ones(len(row), dtype=np.int64))


def _columns(
    row: IntArray, reason: ViolationReason, level: int, domain: npt.NDArray[np.integer], excess: IntArray
) -> IntArray:
    """Findings as in `FindingColumns`, shape (5, findings)."""
    same = np.ones(len(row), dtype=np.int64)
    return np.stack([row, REASONS.index(reason) * same, level * same, domain.astype(np.int64), excess])


def _repeated(ids: npt.NDArray[np.integer]) -> BoolArray:
    """Replicas on brokers that the same partition names further ahead."""
    order = np.argsort(ids, axis=1, kind="stable")
    ordered = np.take_along_axis(ids, order, axis=1)
    again = np.zeros(ids.shape, dtype=bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    repeated = np.empty_like(again)
    np.put_along_axis(repeated, order, again, axis=1)
    return repeated
