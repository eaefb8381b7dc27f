"""What is wished of topics, as far as it can be broken."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rackspan.core.durability import Durability
from rackspan.core.placement.model import Spread

INTERNAL = "__"
"""Kafka's own topics begin so, and have no object."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """
    What one topic should be like. None and empty: nothing is wished.

    `include` and `exclude` are broker ids as text, or rack patterns; `assignment` gives every partition's replicas.
    `min_domains` and `tolerate` are the durability, as pairs of a level's name and a number.
    """

    replication_factor: int | None = None
    spread: tuple[Spread, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    assignment: tuple[tuple[int, ...], ...] = ()
    min_domains: tuple[tuple[str, int], ...] = ()
    tolerate: tuple[tuple[str, int], ...] = ()

    @property
    def durability(self) -> Durability:
        """The durability that is wished."""
        return Durability(dict(self.min_domains), dict(self.tolerate))


@dataclass(frozen=True, slots=True)
class Expectations:
    """
    What all topics of a cluster should be like: those with an object of their own, and the rest.

    `managed` says whether there are objects at all: without, no topic is told to lack one.
    """

    of_topic: Mapping[str, Expectation] = field(default_factory=dict)
    default: Expectation = Expectation()
    managed: bool = False

    def __getitem__(self, topic: str) -> Expectation:
        return self.of_topic.get(topic, self.default)

    def lacks_object(self, topic: str) -> bool:
        """Whether somebody made the topic without declaring it."""
        return self.managed and topic not in self.of_topic and not topic.startswith(INTERNAL)
