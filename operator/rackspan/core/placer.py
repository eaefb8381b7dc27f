"""The input and output of a placer: the types of KIP-879's `createReplicaPlacement`, immutable."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rackspan.core.rack_path import RackPath
from rackspan.core.topology import RackTree


class InfeasibleError(ValueError):
    """A request that no placement can meet.

    `reason` says why. `smallest_change` is a sentence about the smallest change that makes the request feasible.
    """

    def __init__(self, reason: str, smallest_change: str) -> None:
        super().__init__(f"{reason}: {smallest_change}")
        self.reason = reason
        self.smallest_change = smallest_change


class MissingRackError(InfeasibleError):
    """Some brokers have a rack id and some do not; `brokers` are the ids of those without a rack id."""

    def __init__(self, brokers: Sequence[int]) -> None:
        named = ", ".join(map(str, brokers))
        many = "s" if len(brokers) != 1 else ""
        super().__init__(
            f"broker{many} {named} {'have' if many else 'has'} no rack id while others have one",
            f"give broker{many} {named} a rack id, or set missingRackPolicy: Ignore to place without racks",
        )
        self.brokers = tuple(brokers)


class Unsatisfiable(StrEnum):
    """What to do if the existing brokers cannot meet a spread."""

    REFUSE = "Refuse"
    BEST = "Best"


@dataclass(frozen=True, slots=True)
class Spread:
    """The largest difference in replicas of one partition between children of a domain at `level`; 1 is the fair split.

    Raises ValueError if `max_skew` is below 1.
    """

    level: str
    max_skew: int = 1
    when_unsatisfiable: Unsatisfiable = Unsatisfiable.REFUSE

    def __post_init__(self) -> None:
        if self.max_skew < 1:
            raise ValueError(f'spread of level "{self.level}": maxSkew is {self.max_skew}, the least is 1')


@dataclass(frozen=True, slots=True)
class PlacementSpec:
    """The requested placement of one topic.

    `include` and `exclude` are broker ids as text, or rack patterns; `leaders` are domains that should hold the
    leaders. `current` is the present placement: one tuple per partition, the preferred leader first; empty for a new
    topic. `start_index` and `shift` are those of the published `Simple` and `Striped` rules; by default the seed sets
    them.
    """

    partitions: int
    replication_factor: int
    spread: tuple[Spread, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    leaders: tuple[RackPath, ...] = ()
    seed: int = 0
    start_index: int | None = None
    shift: int | None = None
    current: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The brokers and their present load.

    `replicas` and `leaders` are counts per broker id over all topics, including the topic to place. A broker that is
    missing there has none.
    """

    tree: RackTree
    replicas: Mapping[int, int] = field(default_factory=dict)
    leaders: Mapping[int, int] = field(default_factory=dict)


class Placement:
    """The ordered replica list of every partition of a topic; the first replica is the preferred leader.

    Stores a matrix of broker ids, shape (partitions, replicas), if created from an array; otherwise rows.
    """

    __slots__ = ("_matrix", "_rows")

    def __init__(self, rows: Iterable[Sequence[int]] | npt.NDArray[np.integer]) -> None:
        self._matrix: npt.NDArray[np.int32] | None = None
        self._rows: tuple[tuple[int, ...], ...] | None = None
        if isinstance(rows, np.ndarray):
            self._matrix = rows.astype(np.int32, copy=True)
            self._matrix.setflags(write=False)
        else:
            self._rows = tuple(tuple(int(broker) for broker in row) for row in rows)

    @property
    def partitions(self) -> tuple[tuple[int, ...], ...]:
        """Broker ids per partition."""
        if self._rows is None:
            self._rows = tuple(map(tuple, self.matrix.tolist()))
        return self._rows

    @property
    def matrix(self) -> npt.NDArray[np.int32]:
        """Broker ids, shape (partitions, replicas), read-only. Raises ValueError if the lists differ in length."""
        if self._matrix is None:
            rows = self._rows or ()
            if len({len(row) for row in rows}) > 1:
                raise ValueError("the partitions differ in replication factor")
            self._matrix = np.array(rows, dtype=np.int32).reshape(len(rows), -1 if rows else 0)
            self._matrix.setflags(write=False)
        return self._matrix

    @property
    def padded(self) -> npt.NDArray[np.int32]:
        """Broker ids, shape (partitions, most replicas), read-only. Shorter lists are padded with -1."""
        if self._matrix is not None or len({len(row) for row in self.partitions}) <= 1:
            return self.matrix
        padded = np.full((len(self), max(map(len, self.partitions))), -1, dtype=np.int32)
        for at, row in enumerate(self.partitions):
            padded[at, : len(row)] = row
        padded.setflags(write=False)
        return padded

    def __len__(self) -> int:
        return len(self._rows) if self._matrix is None and self._rows is not None else len(self.matrix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placement) and self.partitions == other.partitions

    def __hash__(self) -> int:
        return hash(self.partitions)

    def __repr__(self) -> str:
        return f"Placement({list(self.partitions)!r})"


@runtime_checkable
class Placer(Protocol):
    """The plug-in interface. Entry points of the group `rackspan.placers` name classes that implement it."""

    def place(self, spec: PlacementSpec, cluster: ClusterView) -> Placement | None:
        """Place every partition of `spec`, or return None to leave the choice to Kafka. Raises InfeasibleError."""
