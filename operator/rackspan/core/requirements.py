"""The required state of a topic: one type for placing topics, planning for them and checking them.

Only `rackspan.api.kafkatopic` converts the spec of a KafkaTopic to requirements.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rackspan.core.durability import Durability
from rackspan.core.placement.seeds import seed_for
from rackspan.core.placer import PlacementSpec, Spread
from rackspan.core.rack_path import RackPath
from rackspan.core.text import few, plural
from rackspan.core.topology import RackTree

_INTERNAL = "__"
"""The prefix of Kafka's internal topics, which have no KafkaTopic."""


@dataclass(frozen=True, slots=True)
class TopicRequirements:
    """The required state of one topic. None or empty means no requirement: the present state stays unchanged.

    `include` and `exclude` are broker ids as text, or rack patterns; `leaders` are domains that should hold the
    preferred leaders. These three and `spread` are sorted, so the given order does not matter. An `assignment` lists
    the replicas of every partition, the preferred leader first, and overrides all of the placement. The default `seed`
    comes from the topic's name. `start_index` and `shift` are those of the placers `Simple` and `Striped`.
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
        """Return the request to a placer: `partitions` is the total, `current` are the existing ones."""
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
        """Return only the placement requirements of the `partitions` existing partitions, without durability."""
        return TopicRequirements(
            replication_factor=self.replication_factor,
            spread=self.spread,
            include=self.include,
            exclude=self.exclude,
            leaders=self.leaders,
            assignment=self.assignment[:partitions],
        )

    def on_levels(self, levels: tuple[str, ...]) -> "TopicRequirements":
        """Return the requirements without the rules about levels that are not among `levels`."""
        asked = self.durability.min_domains, self.durability.tolerate
        durability = Durability(*({name: some[name] for name in some if name in levels} for some in asked))
        return replace(self, spread=tuple(one for one in self.spread if one.level in levels), durability=durability)

    def eligible(self, tree: RackTree) -> RackTree:
        """Return the tree in which only the brokers that the topic may use have capacity."""
        return tree.selected(self.include, self.exclude)


@dataclass(frozen=True, slots=True)
class ClusterRequirements:
    """The required state of all topics of a cluster: of topics with a KafkaTopic, and the `default` for all others.

    `managed` says whether the cluster has KafkaTopics at all. If not, no finding reports that a topic has none.
    """

    of_topic: Mapping[str, TopicRequirements] = field(default_factory=dict)
    default: TopicRequirements = TopicRequirements()
    managed: bool = False

    def __getitem__(self, topic: str) -> TopicRequirements:
        return self.of_topic.get(topic, self.default)

    def level_warnings(self, levels: tuple[str, ...]) -> tuple[str, ...]:
        """Return a warning if rules of topics are about levels that are not among `levels`: they are not checked."""
        found = sorted(topic for topic, one in self.of_topic.items() if one.on_levels(levels) != one)
        if not found:
            return ()
        known = few(levels) or "none, while a broker has no rack"
        topics = f"{plural(len(found), 'topic')}: {few(found)}"
        return (f"rules about unknown levels (known: {known}) are not checked, of {topics}",)

    def lacks_object(self, topic: str) -> bool:
        """Return whether the topic should have a KafkaTopic but has none."""
        return self.managed and topic not in self.of_topic and not topic.startswith(_INTERNAL)
