"""What a plan is asked for: a cluster, the topics to look at, and what is wished of some of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackspan.core.placement.model import Spread
from rackspan.core.snapshot import Partitions
from rackspan.core.topology import RackPath, RackTree

_NAMED = 3  # topics in a sentence


@dataclass(frozen=True, slots=True)
class Wish:
    """
    What is wanted of one topic; what is left out stays as it is.

    `include` and `exclude` are broker ids as text, or rack patterns; `leaders` are domains that should hold the
    leaders. An `assignment` gives the replicas of every partition and overrides all else.
    """

    replication_factor: int | None = None
    partitions: int | None = None
    spread: tuple[Spread, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    leaders: tuple[RackPath, ...] = ()
    assignment: tuple[tuple[int, ...], ...] = ()
    seed: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Elsewhere:
    """Replicas and preferred leaders per broker id that a request's partitions leave out."""

    replicas: Mapping[int, int] = field(default_factory=dict)
    leaders: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """
    A cluster and what is wished of it.

    Brokers of `tree` that are not eligible are drained; those that `partitions` names and `tree` does not have are gone
    for good. `partitions` and `elsewhere` are all that lie on the brokers, `topics` the names of the topics that may be
    changed (None: all in `partitions`).
    """

    tree: RackTree
    partitions: Partitions
    topics: frozenset[str] | None = None
    wishes: Mapping[str, Wish] = field(default_factory=dict)
    elsewhere: Elsewhere = Elsewhere()


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
