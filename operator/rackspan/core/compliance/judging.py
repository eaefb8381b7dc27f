"""Check of placements: whether the split in every domain is fair, which domains are unfair, and how many moves fix it.

A placement is compliant if every domain that holds replicas of a partition splits them fairly among its children, no
broker holds two of them, and each broker is in the tree and eligible. A broker that is offline still counts: its
replicas are compliant.

If the racks of only some brokers are known, the compliance of a partition is unknown if it has a replica on a broker
without a rack, or if its compliance depends on the known domain that such a broker is in. More capacity never makes an
unfair split fair. So a split that is unfair over the brokers with a rack is unfair wherever the others are, and a split
that is fair with one more broker in every domain is fair wherever they are.

All partitions of one replication factor are judged at once. A first step compares the domain of each replica with the
window of the fair split, column by column. Only partitions that fail are judged domain by domain.
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
_BEYOND_IDS = 1 << 31  # above every broker id, which is an int32


class ViolationReason(StrEnum):
    """Why a partition is out of compliance."""

    TOO_MANY_REPLICAS = "TooManyReplicas"
    BROKER_NOT_ELIGIBLE = "BrokerNotEligible"
    BROKER_UNKNOWN = "BrokerUnknown"
    BROKER_REPEATED = "BrokerRepeated"


REASONS = tuple(ViolationReason)


@dataclass(frozen=True, slots=True)
class Violation:
    """A domain that holds `excess` replicas of a partition too many, given the number that its parent domain holds.

    If any one of several domains has to lose a replica, each of them has an excess of one.

    For findings about a single broker, `level` is `broker` and `domain` is the broker's id.
    """

    partition: int
    level: str
    domain: str
    reason: ViolationReason
    excess: int


@dataclass(frozen=True, slots=True, eq=False)
class FindingColumns:
    """Findings as parallel arrays of shape (findings,), by partition.

    `reason` is an index into `REASONS`, `level` an index into the tree's levels and `domain` an index into the domains
    of that level. For findings about a single broker, `level` is the number of levels and `domain` the broker's id.
    """

    partition: IntArray
    reason: IntArray
    level: IntArray
    domain: IntArray
    excess: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Compliance:
    """The compliance of the partitions of a topic.

    `broken`, `moves_of`, `unknown` and `unsatisfiable` have the shape (partitions,). `broken` marks partitions out of
    compliance. `moves_of` is the fewest moves that make a partition compliant with the required replication factor.
    `unsatisfiable` marks partitions that no move can fix, because too few brokers are eligible; they have no moves.
    `unfair` counts, per level, the partitions with an unfair split in that level. `unknown` marks partitions whose
    compliance is not known, because the rack of a broker is not known.
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
        """The number of partitions whose compliance is known."""
        return len(self.broken) - self.undecided

    @property
    def undecided(self) -> int:
        """The number of partitions whose compliance is unknown."""
        return int(np.count_nonzero(self.unknown))

    @property
    def non_compliant(self) -> int:
        """The number of partitions that are out of compliance."""
        return int(np.count_nonzero(self.broken))

    @property
    def compliant(self) -> bool:
        """Whether all partitions are known to be compliant."""
        return not (self.broken.any() or self.unknown.any())

    @property
    def moves(self) -> int:
        """The fewest moves that make all partitions compliant; no plan needs fewer."""
        return int(self.moves_of.sum())

    @property
    def findings(self) -> tuple[Violation, ...]:
        """All findings, sorted by partition and level."""
        return tuple(self.each_finding())

    def sample(self, most: int) -> tuple[Violation, ...]:
        """Return the first `most` findings."""
        return tuple(islice(self.each_finding(), most))

    def each_finding(self) -> Iterator[Violation]:
        """Yield all findings, sorted by partition and level."""
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
    found: list[IntArray]  # parts of the findings: the columns of `FindingColumns`, shape (5, findings)


def judge(
    tree: RackTree,
    replicas: Sequence[Sequence[int]] | Placement | npt.NDArray[np.integer],
    spread: Iterable[Spread] = (),
    replication_factor: int | None = None,
) -> Compliance:
    """Return the compliance of the partitions of a topic; `replicas` are broker ids, one list per partition.

    Partitions may differ in replication factor; rows of an array are padded with -1. Each partition is judged by its
    present replicas. Its moves lead to `replication_factor` replicas; None means its present number. Raises
    TopologyError if a spread names a level that the tree does not have.
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
    """Two variants of a tree with missing racks: with the least and with the most capacity its domains may have."""

    missing: tuple[int, ...]
    least: RackTree
    most: RackTree


@lru_cache(maxsize=512)
def _readings(tree: RackTree) -> _Readings | None:
    """Return both variants, with the same domains in the same order; None unless only some brokers have a rack."""
    missing = tree.missing_racks
    if not missing:
        return None
    least = RackTree(tree.levels, tuple(replace(b, eligible=b.eligible and b.rack is not None) for b in tree.brokers))
    usable = sorted({broker.rack for broker in least.brokers if broker.rack is not None and broker.eligible})
    more = (Broker(_BEYOND_IDS + at, rack) for at, rack in enumerate(usable))
    return _Readings(missing, least, RackTree(tree.levels, (*least.brokers, *more)))


def allowed_skews(tree: RackTree, spread: Iterable[Spread]) -> dict[int, tuple[int, bool]]:
    """Return, by index of the level in `tree.nodes`, the largest skew and whether full domains count as well.

    Raises TopologyError if a spread names a level that the tree does not have.
    """
    skews = {}
    for rule in spread:
        tree.level(rule.level)
        strict = rule.when_unsatisfiable is Unsatisfiable.REFUSE
        skews[tree.levels.index(rule.level) + 1] = (rule.max_skew, strict)
    return skews


def _by_size(rows: npt.NDArray[np.integer]) -> Iterator[tuple[IntArray, npt.NDArray[np.integer]]]:
    """Yield, for each replication factor, the partitions that have it and their replicas as a matrix."""
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
    """Judge partitions of one replication factor; `size` is the required replication factor."""
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
    """Return which partitions need a closer look: at least all those outside the windows of the fair split."""
    count, size = placed.shape
    if size > tree.capacity or any(strict for _, strict in skews.values()):
        return np.ones(count, dtype=bool)
    bad = np.zeros(count, dtype=bool)
    for block in blocks(count, size):
        bad[block] = _outside(tree, placed[block])
    return bad


def _outside(tree: RackTree, placed: IntArray) -> BoolArray:
    """Return which partitions are outside the windows. In sorted rows the brokers of a domain are adjacent."""
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
    """Return the most replicas that each `domain` may hold if its parent domain holds `held`, shape (domains,).

    The siblings of a domain must hold at most `skew` fewer, unless they are full; with `strict`, even if they are full.
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
    """Return row, domain and excess for each domain of a level that holds too many replicas."""
    upper, lower = pairs
    full = np.zeros(len(lower), dtype=bool) if strict else lower.count >= level.capacity[lower.domain]
    some = np.add.reduceat(level.capacity > 0, above.first_child, dtype=np.int64)  # number of children with capacity
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
    """Return whether a compliant placement of `size` replicas exists."""
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
    """Return findings as the columns of `FindingColumns`, shape (5, findings)."""
    same = np.ones(len(row), dtype=np.int64)
    return np.stack([row, REASONS.index(reason) * same, level * same, domain.astype(np.int64), excess])


def _repeated(ids: npt.NDArray[np.integer]) -> BoolArray:
    """Return which replicas are on a broker that the same partition lists earlier."""
    order = np.argsort(ids, axis=1, kind="stable")
    ordered = np.take_along_axis(ids, order, axis=1)
    again = np.zeros(ids.shape, dtype=bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    repeated = np.empty_like(again)
    np.put_along_axis(repeated, order, again, axis=1)
    return repeated
