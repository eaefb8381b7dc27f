"""What an import reads: definitions of topics, what it leaves out, and what it has to say about each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rackspan.api.kafkatopic import KafkaTopicSpec


STRATEGY = "spec.placement.strategy"
"""The field of a remark that is about how its source would place replicas."""


@dataclass(frozen=True, slots=True, order=True)
class Source:
    """Where something stands: the name of a file or a cluster, and the line in a file."""

    name: str
    line: int | None = None

    def __str__(self) -> str:
        return self.name if self.line is None else f"{self.name}:{self.line}"


class RemarkKind(StrEnum):
    """What becomes of a field."""

    NOT_KEPT = "NotKept"
    CONVERTED = "Converted"
    DIFFERS = "Differs"
    WOULD_CHANGE = "WouldChange"

    @property
    def words(self) -> str:
        """The same for people, such as `not kept`."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Remark:
    """
    What a KafkaTopic says otherwise than its source, or does not say.

    `Differs`: the source and Kafka disagree, and the KafkaTopic says what Kafka has. `WouldChange`: applying the
    KafkaTopic changes that in Kafka.
    """

    kind: RemarkKind
    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind.words}: {self.field}: {self.message}"


def not_kept(field_: str, message: str) -> Remark:
    """The source says it, and the KafkaTopic cannot."""
    return Remark(RemarkKind.NOT_KEPT, field_, message)


def converted(field_: str, message: str) -> Remark:
    """The KafkaTopic has it in another form."""
    return Remark(RemarkKind.CONVERTED, field_, message)


def differs(field_: str, message: str) -> Remark:
    """The source and Kafka disagree, and the KafkaTopic says what Kafka has."""
    return Remark(RemarkKind.DIFFERS, field_, message)


def would_change(field_: str, message: str) -> Remark:
    """Applying the KafkaTopic changes something in Kafka."""
    return Remark(RemarkKind.WOULD_CHANGE, field_, message)


@dataclass(frozen=True, slots=True, order=True)
class SourceCluster:
    """
    A Kafka cluster as a source names it.

    `where` distinguishes clusters of one name: the namespace of Strimzi's objects, topicctl's environment and region.
    """

    name: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}/{self.name}" if self.where else self.name

    def known_as(self, text: str) -> bool:
        """Whether a user means this one by a name, with or without where it is."""
        return text in (self.name, str(self))


@dataclass(frozen=True, slots=True)
class Definition:
    """
    A topic as its source has it.

    `topic` is its name in Kafka, and always `spec.topic_name`; `cluster` is what the source calls its Kafka cluster.
    `name` is what the object shall be called where the source says so. `open_fields` are those of the spec that the
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
        """The same with more to say."""
        return replace(self, remarks=(*self.remarks, *more))


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is left out, and why. `subject` is such as `topic orders`."""

    source: Source
    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.subject}: skipped: {self.reason}"


@dataclass(frozen=True, slots=True)
class Refused:
    """What cannot be imported, and why."""

    source: Source
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Imported:
    """All that one or several sources gave."""

    definitions: tuple[Definition, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    refused: tuple[Refused, ...] = ()

    @classmethod
    def of(cls, results: Iterable[Definition | Skipped | Refused]) -> Imported:
        """Sort results by what became of them."""
        every = list(results)
        return cls(
            tuple(one for one in every if isinstance(one, Definition)),
            tuple(one for one in every if isinstance(one, Skipped)),
            tuple(one for one in every if isinstance(one, Refused)),
        )

    def redefined(self, results: Iterable[Definition | Skipped | Refused]) -> Imported:
        """The same with results in place of its definitions."""
        return replace(self, definitions=()) + Imported.of(results)

    def __add__(self, other: Imported) -> Imported:
        return Imported(
            self.definitions + other.definitions, self.skipped + other.skipped, self.refused + other.refused
        )
