"""A plan: what is to change, and the certificate that says how much that costs and that it cannot cost less."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from rackspan.core.planning.changes import Changes
from rackspan.core.planning.request import Problem
from rackspan.core.rack_path import domain_name
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import NONE, Partitions
from rackspan.core.text import plural
from rackspan.core.topology import IntArray, RackTree

if TYPE_CHECKING:
    from hashlib import _Hash

_HASH_DIGITS = 32  # 128 bits: nobody finds two plans of one hash


class FalseBoundError(AssertionError):
    """A plan with fewer moves than its lower bound: one of the two is wrong, which is a defect of the planner."""


def refuse_false_bound(moves: int, lower_bound: int) -> None:
    """Raise FalseBoundError where a plan has fewer moves than its bound."""
    if moves < lower_bound:
        raise FalseBoundError(f"a plan has {moves} moves and the lower bound {lower_bound}")


@dataclass(frozen=True, slots=True)
class Extent:
    """The least and the most replicas and leaders of any domain of a level; domains without eligible brokers aside."""

    name: str
    replicas: tuple[int, int]
    leaders: tuple[int, int]


@dataclass(frozen=True, slots=True)
class PlanState:
    """
    Counts over the partitions of topics that may be changed, and extents over all that lies on the brokers.

    `unfair` counts per level the partitions whose replicas are not spread fairly there. The last of `levels` are the
    brokers. `pinned` partitions lie as an explicit assignment says, and not fairly: they count apart, and without it
    `pinned_moves` would fix them.
    """

    partitions: int
    non_compliant: int
    unfair: Mapping[str, int]
    levels: tuple[Extent, ...]
    pinned: int = 0
    pinned_moves: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """
    Changes with their certificate.

    `moves` are the replicas to be copied, counted from the changes; `lower_bound` is what no plan can do without,
    computed apart from them. `removals` are the replicas by which partitions shrink: to take one away copies nothing.
    `bytes` is what is copied, None while the size of any of it is not known. `problems` say what cannot be done; the
    changes leave those topics as they are.
    """

    hash: str
    changes: Changes
    lower_bound: int
    problems: tuple[Problem, ...] = ()
    moves: int = field(init=False)
    reorders: int = field(init=False)
    removals: int = field(init=False)
    bytes: int | None = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        copied, sizes = self.changes.copied, self.changes.size_bytes
        moved = copied > 0
        put(self, "moves", int(copied.sum()))
        refuse_false_bound(self.moves, self.lower_bound)
        put(self, "reorders", self.changes.reorders)
        put(self, "removals", int(self.changes.removed.sum()))
        put(self, "bytes", _total(copied[moved], sizes[moved]))

    @property
    def removed_bytes(self) -> int | None:
        """What the removed replicas hold, None while the size of any of them is not known."""
        removed = self.changes.removed
        return _total(removed[removed > 0], self.changes.size_bytes[removed > 0])

    @property
    def feasible(self) -> bool:
        """Whether all that was asked for can be done."""
        return not self.problems

    @property
    def gap(self) -> int:
        """Moves above the lower bound: 0, unless balance was asked for of a very large cluster or loosened spreads."""
        return self.moves - self.lower_bound

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.changes


@dataclass(frozen=True, slots=True)
class BelowMinInsync:
    """`partitions` of a topic that shrink below its `min.insync.replicas`: to `replicas` at the fewest."""

    topic: str
    partitions: int
    replicas: int
    min_insync: int

    def __str__(self) -> str:
        shrink = "shrinks" if self.partitions == 1 else "shrink"
        return (
            f"topic {self.topic}: {plural(self.partitions, 'partition')} {shrink} to "
            f"{plural(self.replicas, 'replica')}, below min.insync.replicas {self.min_insync}, so that a write "
            f"acknowledged with acks=all is then on {plural(self.replicas, 'broker')} at most"
        )


def below_min_insync(changes: Changes, min_insync: Mapping[str, int]) -> tuple[BelowMinInsync, ...]:
    """Name the topics that shrink below what their `min.insync.replicas` asks, by name."""
    sizes, before = ((rows != NONE).sum(axis=1) for rows in (changes.replicas, changes.before))
    asked = np.array([min_insync.get(name, 0) for name in changes.names], dtype=np.int64)[changes.topic]
    below = (sizes < before) & (sizes < asked)
    topics, first, counts = np.unique(changes.topic[below], return_index=True, return_counts=True)
    fewest = np.minimum.reduceat(sizes[below], first) if len(first) else first
    return tuple(
        BelowMinInsync(name, partitions, replicas, min_insync[name])
        for name, partitions, replicas in zip(
            (changes.names[topic] for topic in topics.tolist()), counts.tolist(), fewest.tolist(), strict=True
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(TopicPlan):
    """A plan for a whole cluster, with how it stands before and after, and the topics that it leaves few replicas."""

    before: PlanState
    after: PlanState
    below_min_insync: tuple[BelowMinInsync, ...] = ()


def _total(replicas: IntArray, sizes: IntArray) -> int | None:
    """Bytes of these replicas of partitions, in Python's numbers: int64 may wrap. None where a size is not known."""
    return None if (sizes == NONE).any() else sum(map(mul, replicas.tolist(), sizes.tolist()))


class Fingerprints:
    """
    Hashes of what a plan was made from and of its result, the same in every process and whatever the input's order.

    They cover brokers, racks, eligibility, requirements, replicas and changes. Sizes, leaders and the ISR are left out:
    they come and go while a plan is being reviewed.
    """

    def __init__(self, tree: RackTree, requirements: Mapping[str, TopicRequirements]) -> None:
        self._requirements = requirements
        self._brokers = sha256()
        for broker in tree.brokers:
            rack = "" if broker.rack is None else domain_name(broker.rack)
            # A drained broker gets nothing anyhow: the plan of a drain stays the same once the broker is cordoned.
            cordoned = ["cordoned"] if broker.cordoned and broker.eligible else []
            _add(self._brokers, broker.id, rack, broker.eligible, broker.online, *cordoned)

    def of(self, looked_at: Partitions, changes: Changes) -> str:
        """Hash of the changes to some partitions, which are in the order of names and numbers."""
        digest = self._brokers.copy()
        topics, counts = np.unique(looked_at.topic, return_counts=True)
        for topic, count in zip(topics.tolist(), counts.tolist(), strict=True):
            name = looked_at.names[topic]
            required = self._requirements.get(name)
            _add(digest, name, count, "" if required is None else _written(required))
        width = int(looked_at.replication_factor.max(initial=0))
        digest.update(looked_at.replicas[:, :width].astype("<i4").tobytes())
        changes.add_to(digest, topics)
        return digest.hexdigest()[:_HASH_DIGITS]


def _written(required: TopicRequirements) -> str:
    """
    What a plan has to do with of a topic's requirements, as text.

    People approve plans by their hashes, so the same requirements have to be written alike by every release: these
    words never follow the names of types and fields.
    """
    spread = [
        f"Spread(level={one.level!r}, max_skew={one.max_skew}, "
        f"when_unsatisfiable=<Unsatisfiable.{one.when_unsatisfiable.name}: {one.when_unsatisfiable.value!r}>)"
        for one in required.spread
    ]
    return (
        f"Wish(replication_factor={required.replication_factor}, partitions={required.partitions}, "
        f"spread=({', '.join(spread)}{',' * (len(spread) == 1)}), include={required.include}, "
        f"exclude={required.exclude}, leaders={required.leaders}, assignment={required.assignment}, "
        f"seed={required.seed})"
    )


def _add(digest: "_Hash", *words: object) -> None:
    digest.update(" ".join(map(str, words)).encode())
    digest.update(b"\0")
