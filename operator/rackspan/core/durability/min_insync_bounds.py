"""Durability: the least and the most that `min.insync.replicas` may be for a placement.

- `min_domains {level: d}`: a write that was acknowledged with `acks=all` is in at least `d` domains of the level. This
  is true of any `m` replicas if `m` is larger than the number of replicas in the `d - 1` fullest domains.
- `tolerate {level: k}`: after the loss of any `k` domains of the level, every partition still has a leader and accepts
  `acks=all` writes. So the remaining replicas of a partition in the worst case must reach `min.insync.replicas`.

Both bounds are those of the worst partition. If `min_domains` is set, the smallest valid value is chosen, because it
leaves the most room for lagging replicas. If only `tolerate` is set, the largest is chosen, because nothing else bounds
the value.

    racks  RF   replicas per rack   2 domains need   1 rack tolerated allows
      3     3        1 1 1                2                    2
      3     4        2 1 1                3                    2              (the two contradict each other)
      2     3        2 1                  3 (= RF)             1              (the two contradict each other)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rackspan.core.durability.replication_factor import nearest_replication_factor
from rackspan.core.placer import Placement
from rackspan.core.snapshot import NONE
from rackspan.core.text import plural
from rackspan.core.topology import IntArray, Level, RackTree


class DurabilityError(ValueError):
    """A durability that a placement cannot provide, or whose parts contradict each other.

    `reason` names the contradiction, `smallest_change` the smallest change that would resolve it.
    """

    def __init__(self, reason: str, smallest_change: str) -> None:
        super().__init__(f"{reason}: {smallest_change}")
        self.reason = reason
        self.smallest_change = smallest_change


@dataclass(frozen=True, slots=True)
class Durability:
    """The required durability of one topic: numbers of domains by level name. Raises ValueError for numbers below 1."""

    min_domains: Mapping[str, int] = field(default_factory=dict)
    tolerate: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, asked in (("minDomains", self.min_domains), ("tolerate", self.tolerate)):
            for level, domains in asked.items():
                if domains < 1:
                    raise ValueError(f'{name} of level "{level}" is {domains}, the least is 1')

    def __bool__(self) -> bool:
        return bool(self.min_domains or self.tolerate)

    def __hash__(self) -> int:
        return hash((frozenset(self.min_domains.items()), frozenset(self.tolerate.items())))


def effective_min_insync(given: npt.ArrayLike, replicas: npt.ArrayLike) -> IntArray:
    """
    Return the `min.insync.replicas` that Kafka applies to partitions with `replicas` replicas: the smaller of the two.

    Kafka does so since 3.7 (KAFKA-15583). The result is at least 1. Both arguments may be numbers or arrays.
    """
    effective: IntArray = np.maximum(np.minimum(given, replicas), 1)
    return effective


@dataclass(frozen=True, slots=True)
class _Bound:
    value: int
    source: str  # such as "minDomains zone: 2"


def min_insync(
    tree: RackTree,
    replicas: Sequence[Sequence[int]] | Placement,
    durability: Durability,
    given: int | None = None,
) -> int | None:
    """Derive `min.insync.replicas` for a placement, or check a `given` value. None if there is neither.

    Raises DurabilityError if the durability contradicts itself, the placement or the given value, and TopologyError for
    a level that the tree does not have.
    """
    rows = replicas if isinstance(replicas, Placement) else Placement(replicas)
    if not len(rows):
        return given
    padded = rows.padded
    size = int(np.count_nonzero(padded != NONE, axis=1).min())
    least = _least(tree, padded, durability, size)
    most = _most(tree, padded, durability, size)
    if least.value > most.value:
        raise DurabilityError(
            f"{least.source} needs min.insync.replicas {least.value}, {most.source} allows {most.value}",
            _smallest_change(tree, durability, size, "lower one of the two"),
        )
    if given is not None:
        _check(int(effective_min_insync(given, size)), least, most)
        return given
    if not durability:
        return None
    return least.value if durability.min_domains else most.value


def insync_bounds(
    tree: RackTree, replicas: npt.NDArray[np.integer], durability: Durability
) -> tuple[IntArray, IntArray]:
    """Return the least and the most `min.insync.replicas` that the durability allows, shape (partitions,) each.

    `replicas` are broker ids, shape (partitions, replicas), padded with -1. If a partition spans too few domains, no
    value is valid: the least is one more than its replicas, or the most is 0. Raises TopologyError for a level that the
    tree does not have.
    """
    size = np.count_nonzero(replicas != NONE, axis=1)
    least, most = np.ones_like(size), size
    for name, domains in durability.min_domains.items():
        counts = largest_first(tree, replicas, tree.level(name))
        needed = _reaching(counts, size, domains)
        least = np.maximum(least, np.where(np.count_nonzero(counts, axis=1) < domains, size + 1, needed))
    for name, domains in durability.tolerate.items():
        most = np.minimum(most, largest_first(tree, replicas, tree.level(name))[:, domains:].sum(axis=1))
    return least, most


def _reaching(counts: IntArray, size: IntArray, domains: int) -> IntArray:
    """Return how many replicas are in `domains` domains, whichever they are, shape (partitions,).

    `counts` are those of `largest_first`. A replica on an unknown broker may be in the same domain as others.
    """
    unknown = size - counts.sum(axis=1) if domains > 1 else 0
    reaching: IntArray = 1 + counts[:, : domains - 1].sum(axis=1) + unknown
    return reaching


def largest_first(tree: RackTree, replicas: npt.NDArray[np.integer], level: Level) -> IntArray:
    """Return the replicas in each domain of a level, largest first, padded with zeros to the shape of `replicas`.

    Replicas on unknown brokers are not counted.
    """
    counts = np.zeros(replicas.shape, dtype=np.int64)
    at = tree.positions(replicas)
    domain = np.sort(np.append(level.of_broker, [NONE])[at], axis=1)
    new = np.ones(domain.shape, dtype=bool)
    new[:, 1:] = domain[:, 1:] != domain[:, :-1]
    counts[new] = np.diff(np.flatnonzero(new), append=new.size)
    counts[domain == NONE] = 0
    return -np.sort(-counts, axis=1)


def _least(tree: RackTree, replicas: npt.NDArray[np.integer], durability: Durability, size: int) -> _Bound:
    """Return the bound of `min_domains`: one more than the most replicas in the `d - 1` fullest domains."""
    bound = _Bound(1, "Kafka")
    for name, domains in durability.min_domains.items():
        counts = largest_first(tree, replicas, tree.level(name))
        spanned = np.count_nonzero(counts, axis=1)
        worst = int(np.argmin(spanned))
        if spanned[worst] < domains:
            raise DurabilityError(
                f"minDomains {name}: {domains} needs replicas in {domains} domains, "
                f"partition {worst} has them in {spanned[worst]}",
                _smallest_change(tree, durability, size, f"lower it to {spanned[worst]}"),
            )
        needed = int(_reaching(counts, np.count_nonzero(replicas != NONE, axis=1), domains).max())
        if needed > bound.value:
            bound = _Bound(needed, f"minDomains {name}: {domains}")
    return bound


def _most(tree: RackTree, replicas: npt.NDArray[np.integer], durability: Durability, size: int) -> _Bound:
    """Return the bound of `tolerate`: the fewest replicas of a partition outside its `k` fullest domains."""
    bound = _Bound(size, f"replicationFactor {size}")
    for name, domains in durability.tolerate.items():
        counts = largest_first(tree, replicas, tree.level(name))
        remaining = counts[:, domains:].sum(axis=1)
        worst = int(np.argmin(remaining))
        if remaining[worst] < 1:
            spanned = int(np.count_nonzero(counts[worst]))
            change = f"lower it to {spanned - 1}" if spanned > 1 else "remove it"
            raise DurabilityError(
                f"tolerate {name}: {domains} would leave partition {worst} no replica, it has them in "
                f"{plural(spanned, 'domain')}",
                _smallest_change(tree, durability, size, change),
            )
        if int(remaining[worst]) < bound.value:
            bound = _Bound(int(remaining[worst]), f"tolerate {name}: {domains}")
    return bound


def _check(given: int, least: _Bound, most: _Bound) -> None:
    if given < least.value:
        raise DurabilityError(
            f"min.insync.replicas {given} is too small for {least.source}", f"raise it to {least.value}"
        )
    if given > most.value:
        raise DurabilityError(
            f"min.insync.replicas {given} is too large for {most.source}", f"lower it to {most.value}"
        )


def _smallest_change(tree: RackTree, durability: Durability, size: int, otherwise: str) -> str:
    """Return `otherwise`, plus the nearest replication factor with which every fair placement is durable, if any."""
    other = nearest_replication_factor(tree, size, durability.min_domains, durability.tolerate)
    if other is None:
        return otherwise
    return f"{otherwise}, or {'raise' if other > size else 'lower'} replicationFactor to {other}"
