"""The input of the planner: a cluster, the topics to plan, and the requirements of topics."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import Partitions
from rackspan.core.topology import RackTree

_NAMED = 3  # topics named in a message


@dataclass(frozen=True, slots=True, eq=False)
class Elsewhere:
    """Replicas and preferred leaders per broker id that are not among the partitions of a request."""

    replicas: Mapping[int, int] = field(default_factory=dict)
    leaders: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class PlanRequest:
    """A cluster, and the requirements of its topics.

    Brokers of `tree` that are not eligible are drained. Brokers in `partitions` that are not in `tree` are permanently
    lost. `partitions` and `elsewhere` are all replicas on the brokers. `topics` are the names of the topics that may be
    changed (None: all in `partitions`). Topics without `requirements` change only to get a fair spread. `min_insync`
    has each topic's `min.insync.replicas` after the plan is executed, if known.
    """

    tree: RackTree
    partitions: Partitions
    topics: frozenset[str] | None = None
    requirements: Mapping[str, TopicRequirements] = field(default_factory=dict)
    elsewhere: Elsewhere = Elsewhere()
    min_insync: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something cannot be done for some topics, and the smallest change that would make it possible."""

    topics: tuple[str, ...]
    reason: str
    smallest_change: str

    def __str__(self) -> str:
        named = ", ".join(self.topics[:_NAMED])
        more = f" and {len(self.topics) - _NAMED:,} more" if len(self.topics) > _NAMED else ""
        return f"topic{'s' if len(self.topics) > 1 else ''} {named}{more}: {self.reason}: {self.smallest_change}"
