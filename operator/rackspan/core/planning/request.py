"""What a plan is asked for: a cluster, the topics to look at, and what some of them should be."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import Partitions
from rackspan.core.topology import RackTree

_NAMED = 3  # topics in a sentence


@dataclass(frozen=True, slots=True, eq=False)
class Elsewhere:
    """Replicas and preferred leaders per broker id that a request's partitions leave out."""

    replicas: Mapping[int, int] = field(default_factory=dict)
    leaders: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class PlanRequest:
    """
    A cluster, and what its topics should be.

    Brokers of `tree` that are not eligible are drained; those that `partitions` names and `tree` does not have are gone
    for good. `partitions` and `elsewhere` are all that lie on the brokers, `topics` the names of the topics that may be
    changed (None: all in `partitions`). Those without `requirements` stay what they are, but for an unfair spread.
    `min_insync` has each topic's `min.insync.replicas` once the plan is carried out, as far as it is known.
    """

    tree: RackTree
    partitions: Partitions
    topics: frozenset[str] | None = None
    requirements: Mapping[str, TopicRequirements] = field(default_factory=dict)
    elsewhere: Elsewhere = Elsewhere()
    min_insync: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something cannot be done to some topics, and the smallest change with which it could."""

    topics: tuple[str, ...]
    reason: str
    smallest_change: str

    def __str__(self) -> str:
        named = ", ".join(self.topics[:_NAMED])
        more = f" and {len(self.topics) - _NAMED} more" if len(self.topics) > _NAMED else ""
        return f"topic{'s' if len(self.topics) > 1 else ''} {named}{more}: {self.reason}: {self.smallest_change}"
