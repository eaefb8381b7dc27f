"""The multi-level placer: replicas that survive the loss of any domain, at every level of the tree.

GOALS
In this order. A later goal never weakens an earlier one:

1. every domain of every level splits its replicas of each partition fairly among its children (see
   `rackspan.core.compliance.fair_split`);
2. as few existing replicas as possible move;
3. brokers hold equally many replicas, including the replicas that they hold already;
4. brokers lead equally many partitions;
5. domains lead equally many partitions in proportion to their brokers, top level first;
6. the brokers of a partition vary, so that the leaders of a failed broker move to many other brokers.

So if a small rack must hold a replica of every partition, it gets one of every partition, however full its brokers are.
In general racks should have similar sizes.

CONSTRAINTS
No broker holds two replicas of a partition. Brokers that are not eligible hold no replicas. Brokers that are offline or
cordoned get no new ones. An impossible placement is refused with the smallest change that would make it possible.

ALGORITHM
The fair split gives each domain a window of at most two sizes per partition. From these windows:

1. quotas distribute the replicas of the whole topic to brokers within the windows (`engine.allocation.quotas`);
2. the wrap-around rule turns quotas into partitions (`engine.allocation.wrap_around`), with a new order of the brokers
   in each round (`engine.allocation.broker_orders`);
3. leaders are an optimal semi-matching of partitions to brokers (`engine.balance.leaders`).

Three data centres of two racks of one broker, RF 3, 4 partitions:

                        /dc1              /dc2              /dc3
                    /r1     /r2       /r1     /r2       /r1     /r2
    window            0..1 of 1         0..1 of 1         0..1 of 1     one replica in each data centre
    quota (4 each)    2       2         2       2         2       2
    partition 0       0              *2                        5
    partition 1       0                       3               *5
    partition 2              *1               3       4
    partition 3               1       2              *4                * leads

Existing partitions that are fair stay unchanged. The others are repaired with the fewest possible moves
(`engine.repair.partition_repair`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from rackspan.core.compliance import allowed_skews, judge
from rackspan.core.compliance.fair_split import Windows, fair_windows, requiring, usable_windows
from rackspan.core.placement.engine.allocation.quotas import poured, quotas
from rackspan.core.placement.engine.allocation.wrap_around import wrap_around
from rackspan.core.placement.engine.balance.leaders import choose_leaders
from rackspan.core.placement.engine.loads import Loads
from rackspan.core.placement.engine.repair.partition_repair import repair_partitions
from rackspan.core.placement.engine.tasks import Task
from rackspan.core.placement.feasibility import (
    checked_tree,
    refuse_impossible_spread,
    refuse_missing_racks,
    refuse_too_few,
    reopening,
)
from rackspan.core.placement.seeds import scrambled
from rackspan.core.placer import ClusterView, InfeasibleError, Placement, PlacementSpec
from rackspan.core.rack_path import RackPath, domain_name
from rackspan.core.text import shown
from rackspan.core.topology import BoolArray, IntArray, RackTree

_Ids = npt.NDArray[np.int32]  # Kafka's type of broker ids

_GROUPS = 0x600  # purpose of hashes
_SMALL = 1 << 10  # up to this size, a topic is placed again while its preferred brokers lead unevenly
_APART = 1 << 20  # difference between the seeds of attempts
ATTEMPTS = 4
"""The most placements of one topic that prefers leaders. More attempts are rarely more even."""


class MultiLevel:
    """The default placer."""

    def place(self, spec: PlacementSpec, cluster: ClusterView) -> Placement:
        """Place the partitions of `spec`. Raises InfeasibleError."""
        tree = checked_tree(spec, cluster.tree)
        refuse_missing_racks(tree)
        refuse_impossible_spread(tree, spec)
        return continued(tree, spec, cluster)


def continued(tree: RackTree, spec: PlacementSpec, cluster: ClusterView) -> Placement:
    """Keep fair partitions, repair the others and create the missing ones. The caller has checked the tree."""
    loads = Loads.of(tree, cluster.replicas, cluster.leaders)
    preferred = _preferred_brokers(tree, reachable_leaders(tree, spec.leaders))
    rows = _repaired(tree, spec, loads, preferred) if spec.current else []
    if spec.partitions == len(spec.current):
        return Placement(rows)
    matrix = created(tree, spec, loads)
    return Placement([*rows, *matrix.tolist()] if rows else matrix)


def created(tree: RackTree, spec: PlacementSpec, loads: Loads) -> _Ids:
    """Place the new partitions on the least loaded brokers. Return broker ids, shape (partitions, replicas).

    Raises InfeasibleError.
    """
    spec = replace(spec, leaders=reachable_leaders(tree, spec.leaders))
    preferred = _preferred_brokers(tree, spec.leaders)
    count = spec.partitions - len(spec.current)
    found: list[tuple[int, IntArray, IntArray]] = []
    for attempt in range(ATTEMPTS if spec.leaders and count <= _SMALL else 1):
        placed = _created(tree, spec, count, loads.replicas, loads.leaders, attempt)
        lead = choose_leaders(tree, placed, _may_lead(preferred, placed), loads.leaders, spec.seed)
        led = np.bincount(placed.reshape(-1).take(lead * count + np.arange(count)), minlength=len(tree))[preferred]
        more = led < np.bincount(placed.reshape(-1), minlength=len(tree))[preferred]
        total = loads.leaders[preferred] + led
        found.append((int((total**2).sum()), placed, lead))
        if total.max(where=led > 0, initial=0) <= total.min(where=more, initial=total.max()) + 1:
            break  # a broker has the same number of replicas in all attempts, so no attempt can be more even
    _, placed, lead = min(found, key=itemgetter(0))
    return _led(tree.ids.astype(np.int32).take(placed), lead)


def freedom(tree: RackTree, spec: PlacementSpec, placed: IntArray) -> Iterator[tuple[Windows, IntArray]]:
    """Yield each set of windows by which new partitions were placed, with the row numbers of these partitions.

    `placed` (partitions, replicas) are positions, the leader first.
    """
    windows, leaders = _windows(tree, spec.replication_factor), reachable_leaders(tree, spec.leaders)
    if not leaders:
        yield windows, np.arange(len(placed))
        return
    for depth, domain in _preferred_domains(tree, leaders):
        yield (
            requiring(tree, windows, depth, domain),
            np.flatnonzero(tree.nodes[depth].of_broker[placed[:, 0]] == domain),
        )


def _created(
    tree: RackTree, spec: PlacementSpec, count: int, replicas: IntArray, leaders: IntArray, attempt: int
) -> IntArray:
    """Return positions of new partitions. If there are preferred domains, each gets a replica in one of them."""
    seed = spec.seed + len(spec.current)
    windows = _windows(tree, spec.replication_factor)
    if not spec.leaders:
        return wrap_around(tree, quotas(tree, windows, count, replicas, seed), count, seed)
    groups = _preferred_domains(tree, spec.leaders)
    share = poured(leaders, _preferred_brokers(tree, spec.leaders), count, seed)
    replicas, parts = replicas.copy(), []
    for number, (depth, domain) in enumerate(groups):
        size = int(share[tree.nodes[depth].of_broker == domain].sum())
        if size:
            inside = requiring(tree, windows, depth, domain)
            dealt = wrap_around(
                tree, quotas(tree, inside, size, replicas, seed), size, seed + number + attempt * _APART
            )
            replicas += np.bincount(dealt.ravel(), minlength=len(replicas))
            parts.append(dealt)
    order = np.argsort(scrambled(seed, _GROUPS, np.arange(count)), kind="stable")
    return np.concatenate(parts, axis=1)[:, order]


def _repaired(tree: RackTree, spec: PlacementSpec, loads: Loads, preferred: BoolArray) -> list[Sequence[int]]:
    """Return the rows of the existing partitions, repaired unless they are fair. Updates the loads.

    A row that cannot be repaired stays unchanged. Raises InfeasibleError if such a row has the wrong size.
    """
    size = spec.replication_factor
    rows: list[Sequence[int]] = list(spec.current)
    wrong = judge(tree, rows, spec.spread).broken | np.array([len(row) != size for row in rows])
    fixed = np.flatnonzero(wrong).tolist()
    if not fixed:
        return rows
    current = np.full((len(fixed), max(len(rows[partition]) for partition in fixed)), -1, dtype=np.int64)
    for at, partition in enumerate(fixed):
        current[at, : len(rows[partition])] = tree.positions(rows[partition])
    unknown = np.full(len(fixed), -1, dtype=np.int64)
    loads.cover(current)
    task = Task(tree, size, allowed_skews(tree, spec.spread), preferred, np.arange(len(fixed)))
    placed = repair_partitions(tree, [task], current, unknown, loads, spec.seed)
    for partition, row in zip(fixed, placed.tolist(), strict=True):
        if row[0] >= 0:
            rows[partition] = tuple(tree.ids[row].tolist())
        elif len(rows[partition]) != size:
            state, remedy = reopening(tree, size)
            raise InfeasibleError(
                f"partition {partition} cannot get {size} replicas by a fair split of the brokers that are {state}",
                remedy,
            )
    return rows


def _windows(tree: RackTree, size: int) -> Windows:
    """Return windows of new partitions: fair over all eligible brokers if the open ones suffice, else over the open."""
    windows = usable_windows(tree, size)
    if windows.feasible:
        return windows
    refuse_too_few(tree, size)
    return fair_windows(tree.without_closed(), size)


def _preferred_brokers(tree: RackTree, leaders: tuple[RackPath, ...]) -> BoolArray:
    """Return which brokers should lead, shape (brokers,); all that can lead if no domain is preferred."""
    return _named(tree, leaders) & tree.eligible & tree.open


def reachable_leaders(tree: RackTree, leaders: tuple[RackPath, ...]) -> tuple[RackPath, ...]:
    """
    Return the domains preferred for leaders, or none while all their brokers are offline or cordoned: then others lead.

    Raises InfeasibleError if none of their brokers is eligible.
    """
    return leaders if (lasting_leaders(tree, leaders) & tree.open).any() else ()


def lasting_leaders(tree: RackTree, leaders: tuple[RackPath, ...]) -> BoolArray:
    """
    Return which brokers should lead, shape (brokers,), including brokers that are offline now, because they come back.

    Raises InfeasibleError if no preferred broker is eligible.
    """
    named = _named(tree, leaders) & tree.eligible
    if leaders and not named.any():
        domains = shown(", ".join(map(domain_name, leaders)))
        raise InfeasibleError(
            f"no broker that is eligible is in the domains preferred for leaders ({domains})",
            "prefer a domain that has one",
        )
    return named


@lru_cache(maxsize=256)
def _named(tree: RackTree, leaders: tuple[RackPath, ...]) -> BoolArray:
    """Return which brokers are in these domains, shape (brokers,); all brokers if `leaders` is empty."""
    named = np.full(len(tree), not leaders)
    for path in leaders:
        named[tree.positions(tree.matches(domain_name(path)))] = True
    named.setflags(write=False)
    return named


@lru_cache(maxsize=256)
def _preferred_domains(tree: RackTree, leaders: tuple[RackPath, ...]) -> Sequence[tuple[int, int]]:
    """Return level and index of each preferred domain that can lead, without domains inside another preferred one."""
    found: list[tuple[int, int]] = []
    covered = ~(tree.eligible & tree.open)
    for path in sorted((path for path in leaders if len(path) <= len(tree.levels)), key=len):
        level = tree.nodes[len(path)]
        for domain in np.unique(level.of_broker[tree.positions(tree.matches(domain_name(path)))]).tolist():
            inside = level.of_broker == domain
            if not covered[inside].all():
                found.append((len(path), domain))
                covered |= inside
    return tuple(found)  # it is cached


def _may_lead(preferred: BoolArray, placed: IntArray) -> BoolArray:
    """Return which replicas may lead: the preferred ones of a partition, or all if it has none."""
    allowed = preferred[placed]
    if not allowed.all():
        allowed |= ~allowed.any(axis=0)
    return allowed


def _led(ids: _Ids, lead: IntArray) -> _Ids:
    """Return rows of broker ids, shape (partitions, replicas), from columns `ids`; the replica at `lead` is the first.

    The order of the other replicas varies between partitions, so that the next leaders vary, too.
    """
    size, count = ids.shape
    twice = np.concatenate([ids, ids[:-1]]).reshape(-1)  # so that no index after a leader is out of range
    at, turns = lead * count + np.arange(count), max(size - 1, 1)
    led = np.empty((count, size), dtype=ids.dtype)
    led[:, 0] = twice.take(at)
    for turn in range(turns):
        leaders = at[turn::turns]
        for replica in range(1, size):
            ahead = 1 + (turn + replica) % turns
            led[turn::turns, replica] = twice[ahead * count :].take(leaders)
    return led
