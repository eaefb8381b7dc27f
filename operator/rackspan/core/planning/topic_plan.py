"""A plan: the changes, and the certificate that states their cost and a lower bound of the cost of every plan."""

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

_HASH_DIGITS = 32  # 128 bits, so that collisions cannot be found


class FalseBoundError(AssertionError):
    """A plan has fewer moves than its lower bound. One of the two is wrong, which is a defect of the planner."""


def refuse_false_bound(moves: int, lower_bound: int) -> None:
    """Raise FalseBoundError if a plan has fewer moves than its lower bound."""
    if moves < lower_bound:
        raise FalseBoundError(f"a plan has {moves} moves and the lower bound {lower_bound}")


@dataclass(frozen=True, slots=True)
class Extent:
    """The least and the most replicas and leaders of a domain of a level. Domains need eligible brokers to count."""

    name: str
    replicas: tuple[int, int]
    leaders: tuple[int, int]


@dataclass(frozen=True, slots=True)
class PlanState:
    """Counts over the partitions of topics that may be changed, and extents over all replicas on the brokers.

    `unfair` counts per level the partitions whose replicas are not spread fairly there. The last of `levels` are the
    brokers. `pinned` counts the partitions that match an explicit assignment which is not fair. They are not in
    `unfair`. Without the assignments, `pinned_moves` moves would make them fair.
    """

    partitions: int
    non_compliant: int
    unfair: Mapping[str, int]
    levels: tuple[Extent, ...]
    pinned: int = 0
    pinned_moves: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """Changes with their certificate.

    `moves` are the replicas to be copied, counted from the changes. `lower_bound` is the number of moves that every
    plan needs, computed independently of the changes. `removals` are the replicas by which partitions shrink; a removal
    copies nothing. `bytes` is the size of all copies, None while any size is unknown. `problems` say what cannot be
    done; the partitions concerned stay unchanged.
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
        """The bytes of the removed replicas, None while any of their sizes is unknown."""
        removed = self.changes.removed
        return _total(removed[removed > 0], self.changes.size_bytes[removed > 0])

    @property
    def feasible(self) -> bool:
        """Whether all requirements can be met."""
        return not self.problems

    @property
    def gap(self) -> int:
        """Moves above the lower bound: 0, except for a balance of a very large cluster or with loosened spreads."""
        return self.moves - self.lower_bound

    @property
    def empty(self) -> bool:
        """Whether the plan has no changes."""
        return not self.changes


@dataclass(frozen=True, slots=True)
class BelowMinInsync:
    """The number of `partitions` of a topic that shrink below its `min.insync.replicas`, at worst to `replicas`."""

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
    """Return the topics with partitions that shrink below their `min.insync.replicas`, sorted by name."""
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
    """A plan for a cluster, with the states before and after, and topics that shrink below `min.insync.replicas`."""

    before: PlanState
    after: PlanState
    below_min_insync: tuple[BelowMinInsync, ...] = ()


def _total(replicas: IntArray, sizes: IntArray) -> int | None:
    """Return the bytes of these replicas as a Python int, because int64 may wrap; None if a size is unknown."""
    return None if (sizes == NONE).any() else sum(map(mul, replicas.tolist(), sizes.tolist()))


class Fingerprints:
    """Hashes of the input and the result of a plan, the same in every process and for any order of the input.

    They cover brokers with racks, eligibility and state, requirements, replicas and changes. Sizes, leaders and the ISR
    are left out, because they change while a user reviews a plan.
    """

    def __init__(self, tree: RackTree, requirements: Mapping[str, TopicRequirements]) -> None:
        self._requirements = requirements
        self._brokers = sha256()
        for broker in tree.brokers:
            rack = "" if broker.rack is None else domain_name(broker.rack)
            # A drained broker gets no replicas anyway. So the hash of a drain is the same after a cordon of the broker.
            cordoned = ["cordoned"] if broker.cordoned and broker.eligible else []
            _add(self._brokers, broker.id, rack, broker.eligible, broker.online, *cordoned)

    def of(self, looked_at: Partitions, changes: Changes) -> str:
        """Return the hash of the changes to some partitions, which are in the order of names and numbers."""
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
    """Return the requirements of a topic that affect plans, as text.

    Users approve plans by their hashes, so every release must write the same requirements in the same way. So this text
    does not follow renamed types and fields.
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
