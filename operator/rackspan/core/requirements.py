"""
What a topic should be: one type for all who place it, plan for it or hold what lies there against it.

A KafkaTopic's spec becomes requirements in one place, `rackspan.api.kafkatopic`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackspan.core.durability import Durability
from rackspan.core.placement.seeds import seed_for
from rackspan.core.placer import PlacementSpec, Spread
from rackspan.core.rack_path import RackPath
from rackspan.core.topology import RackTree

_INTERNAL = "__"
"""Kafka's own topics begin so, and have no object."""


@dataclass(frozen=True, slots=True)
class TopicRequirements:
    """
    What one topic should be. None and empty: nothing is asked, and what is there stays as it is.

    `include` and `exclude` are broker ids as text, or rack patterns; `leaders` are domains that should hold the
    preferred leaders. These and `spread` are kept in an order of their own, however they are given. An `assignment`
    gives the replicas of every partition, the preferred leader first, and overrides all of the placement. Without a
    `seed` the topic's name gives one. `start_index` and `shift` are those of the placers `Simple` and `Striped`.
    """

    replication_factor: int | None = None
    partitions: int | None = None
    spread: tuple[Spread, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    leaders: tuple[RackPath, ...] = ()
    assignment: tuple[tuple[int, ...], ...] = ()
    durability: Durability = field(default_factory=Durability)
    seed: int | None = None
    start_index: int | None = None
    shift: int | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "spread", tuple(sorted(self.spread, key=lambda one: one.level)))
        put(self, "include", tuple(sorted(set(self.include))))
        put(self, "exclude", tuple(sorted(set(self.exclude))))
        put(self, "leaders", tuple(sorted(set(self.leaders))))

    def placement_spec(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        current: tuple[tuple[int, ...], ...] = (),
    ) -> PlacementSpec:
        """Put to a placer: so many `partitions` in all, of which `current` are there already."""
        return PlacementSpec(
            partitions,
            replication_factor,
            spread=self.spread,
            include=self.include,
            exclude=self.exclude,
            leaders=self.leaders,
            seed=seed_for(topic) if self.seed is None else self.seed,
            start_index=self.start_index,
            shift=self.shift,
            current=current,
        )

    def of_existing(self, partitions: int) -> "TopicRequirements":
        """Leave what concerns where the `partitions` that are there lie: nothing of new ones or durability."""
        return TopicRequirements(
            replication_factor=self.replication_factor,
            spread=self.spread,
            include=self.include,
            exclude=self.exclude,
            leaders=self.leaders,
            assignment=self.assignment[:partitions],
        )

    def eligible(self, tree: RackTree) -> RackTree:
        """Give the tree in which only the brokers that the topic may use have capacity."""
        return tree.selected(self.include, self.exclude)


@dataclass(frozen=True, slots=True)
class ClusterRequirements:
    """
    What all topics of a cluster should be: those with an object of their own, and the rest.

    `managed` says whether there are objects at all: without, no finding says that a topic has none.
    """

    of_topic: Mapping[str, TopicRequirements] = field(default_factory=dict)
    default: TopicRequirements = TopicRequirements()
    managed: bool = False

    def __getitem__(self, topic: str) -> TopicRequirements:
        return self.of_topic.get(topic, self.default)

    def lacks_object(self, topic: str) -> bool:
        """Whether somebody made the topic without declaring it."""
        return self.managed and topic not in self.of_topic and not topic.startswith(_INTERNAL)
