"""The results of an import: definitions of topics, what it skips or refuses, and remarks on each topic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopicSpec


STRATEGY = "spec.placement.strategy"
"""The field of remarks about the source's own strategy to place replicas."""


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """The origin of something: the name of a file or cluster, and the line in a file."""

    name: str
    line: int | None = None

    def __str__(self) -> str:
        return self.name if self.line is None else f"{self.name}:{self.line}"


class RemarkKind(StrEnum):
    """What happens to a field."""

    NOT_KEPT = "NotKept"
    CONVERTED = "Converted"
    DIFFERS = "Differs"
    WOULD_CHANGE = "WouldChange"

    @property
    def words(self) -> str:
        """The name for people, such as `not kept`."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Remark:
    """A difference between a KafkaTopic and its source.

    `Differs`: the source and Kafka disagree, and the KafkaTopic has the value from Kafka. `WouldChange`: applying the
    KafkaTopic changes something in Kafka.
    """

    kind: RemarkKind
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind.words}: {self.field}: {self.message}"


def not_kept(field_: str, message: str) -> Remark:
    """Return a remark on a field of the source that a KafkaTopic cannot have."""
    return Remark(RemarkKind.NOT_KEPT, field_, message)


def converted(field_: str, message: str) -> Remark:
    """Return a remark on a field that the KafkaTopic has in another form."""
    return Remark(RemarkKind.CONVERTED, field_, message)


def differs(field_: str, message: str) -> Remark:
    """Return a remark on a field where the source and Kafka disagree; the KafkaTopic has the value from Kafka."""
    return Remark(RemarkKind.DIFFERS, field_, message)


def would_change(field_: str, message: str) -> Remark:
    """Return a remark on something in Kafka that applying the KafkaTopic changes."""
    return Remark(RemarkKind.WOULD_CHANGE, field_, message)


@dataclass(frozen=True, slots=True, order=True)
class SourceCluster:
    """A Kafka cluster, as named in a source.

    `where` distinguishes clusters of the same name: Strimzi's namespace, or topicctl's environment and region.
    """

    name: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}/{self.name}" if self.where else self.name

    def known_as(self, text: str) -> bool:
        """Return whether a user's text names this cluster, with or without `where`."""
        return text in (self.name, str(self))


@dataclass(frozen=True, slots=True)
class Definition:
    """A topic as defined in its source.

    `topic` is its name in Kafka and always equals `spec.topic_name`. `cluster` is its Kafka cluster, as named in the
    source. `name` is the name for the object, if the source has one. `open_fields` are the fields of the spec that the
    source leaves to the brokers.
    """

    source: Source
    topic: str
    spec: KafkaTopicSpec
    cluster: SourceCluster | None = None
    name: str | None = None
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    open_fields: tuple[str, ...] = ()

    def with_remarks(self, *more: Remark) -> Definition:
        """Return the definition with more remarks."""
        return replace(self, remarks=(*self.remarks, *more))


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that is not imported, and why. `subject` is, for example, `topic orders`."""

    source: Source
    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.subject}: skipped: {self.reason}"


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that cannot be imported, and why."""

    source: Source
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Imported:
    """All results from one or more sources."""

    definitions: tuple[Definition, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    refused: tuple[Refused, ...] = ()

    @classmethod
    def of(cls, results: Iterable[Definition | Skipped | Refused]) -> Imported:
        """Group results by their type."""
        every = list(results)
        return cls(
            tuple(one for one in every if isinstance(one, Definition)),
            tuple(one for one in every if isinstance(one, Skipped)),
            tuple(one for one in every if isinstance(one, Refused)),
        )

    def redefined(self, results: Iterable[Definition | Skipped | Refused]) -> Imported:
        """Return a copy with `results` in place of the definitions."""
        return replace(self, definitions=()) + Imported.of(results)

    def __add__(self, other: Imported) -> Imported:
        return Imported(
            self.definitions + other.definitions, self.skipped + other.skipped, self.refused + other.refused
        )
