"""The changes of a plan per partition, in columns, because there may be millions of them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, overload

import numpy as np
import numpy.typing as npt

from rackspan.core.snapshot import NONE, in_row, of_width
from rackspan.core.topology import IntArray

if TYPE_CHECKING:
    from hashlib import _Hash

_AT_ONCE = 1 << 14  # changes converted into objects at once


@dataclass(frozen=True, slots=True)
class Change:
    """A partition and its new replicas, the preferred leader first. `before` is empty for a partition to be created."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    before: tuple[int, ...] = ()
    size_bytes: int | None = None

    @property
    def added(self) -> frozenset[int]:
        """The brokers that hold the partition only after the change."""
        return frozenset(self.replicas).difference(self.before)

    @property
    def copied(self) -> int:
        """The number of replicas to be copied to brokers that have none. A new partition copies nothing."""
        return len(self.added) if self.before else 0

    @property
    def removed(self) -> int:
        """By how many replicas the partition shrinks. A replica that a copy replaces is not counted."""
        return max(len(self.before) - len(self.replicas), 0)

    @property
    def is_reorder(self) -> bool:
        """Whether only the order of the replicas changes, and with it usually the preferred leader."""
        return self.replicas != self.before and set(self.replicas) == set(self.before)


@dataclass(frozen=True, slots=True, eq=False)
class CreatedPartitions:
    """Partitions of one topic to be created, from number `first` on; `replicas` (n, replicas) as in `Changes`."""

    topic: str
    first: int
    replicas: npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Changes(Sequence[Change]):
    """Changes in the order of topics and partitions. `Change` objects are created only on access.

    `topic` (n,) is an index into `names`, which are sorted; `number` (n,) is the partition id. `replicas` and `before`
    (n, replicas) are broker ids, padded with -1. `size_bytes` (n,) is -1 if unknown.
    """

    names: tuple[str, ...]
    topic: IntArray
    number: IntArray
    replicas: npt.NDArray[np.integer]
    before: npt.NDArray[np.integer]
    size_bytes: IntArray

    def __len__(self) -> int:
        return len(self.topic)

    def __iter__(self) -> Iterator[Change]:
        for start in range(0, len(self), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            columns = (self.topic, self.number, self.replicas, self.before, self.size_bytes)
            for topic, number, new, old, size in zip(*(column[some].tolist() for column in columns), strict=True):
                yield Change(
                    self.names[topic],
                    number,
                    tuple(broker for broker in new if broker != NONE),
                    tuple(broker for broker in old if broker != NONE),
                    None if size == NONE else size,
                )

    @overload
    def __getitem__(self, at: int) -> Change: ...
    @overload
    def __getitem__(self, at: slice | IntArray) -> Self: ...
    def __getitem__(self, at: int | slice | IntArray) -> "Change | Self":
        if not isinstance(at, int):
            return self._rows(at)
        start = range(len(self))[at]
        return next(iter(self._rows(slice(start, start + 1))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Changes | tuple):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))

    def with_created(self, created: Sequence[CreatedPartitions]) -> Self:
        """Return these changes and partitions to be created, whose topics must be in `names`."""
        if not created:
            return self
        rank = {name: at for at, name in enumerate(self.names)}
        counts = [len(one.replicas) for one in created]
        joined = type(self)(
            self.names,
            np.concatenate([self.topic, np.repeat([rank[one.topic] for one in created], counts)]),
            np.concatenate([self.number, *(one.first + np.arange(len(one.replicas)) for one in created)]),
            stacked([self.replicas, *(one.replicas for one in created)]),
            np.concatenate([self.before, np.full((sum(counts), self.before.shape[1]), NONE)]),
            np.concatenate([self.size_bytes, np.full(sum(counts), NONE)]),
        )
        return joined[np.lexsort((joined.number, joined.topic))]

    def with_sizes(self, sizes: Sequence[int | None]) -> Self:
        """Return the same changes with the bytes of each partition, None if unknown."""
        return replace(self, size_bytes=np.array([NONE if size is None else size for size in sizes], dtype=np.int64))

    def of_topic(self, topic: int) -> Self:
        """Return the changes of one topic, by its index."""
        start, stop = np.searchsorted(self.topic, (topic, topic + 1)).tolist()
        return self._rows(slice(start, stop))

    @property
    def existing(self) -> Self:
        """The changes of existing partitions."""
        return self._rows(np.flatnonzero(_sizes(self.before)))

    @property
    def created(self) -> int:
        """The number of partitions to be created."""
        return int(np.count_nonzero(_sizes(self.before) == 0))

    @property
    def copied(self) -> IntArray:
        """The number of replicas to be copied per change, shape (n,); see `Change.copied`."""
        new = ~in_row(self.replicas, self.before) & (self.replicas != NONE)
        return np.where(_sizes(self.before) > 0, new.sum(axis=1), 0)

    @property
    def reorders(self) -> int:
        """The number of reorders; see `Change.is_reorder`."""
        same = (in_row(self.replicas, self.before) | (self.replicas == NONE)).all(axis=1)
        same &= (in_row(self.before, self.replicas) | (self.before == NONE)).all(axis=1)
        width = max(self.replicas.shape[1], self.before.shape[1])
        new, old = of_width(self.replicas, width), of_width(self.before, width)
        return int(np.count_nonzero(same & (new != old).any(axis=1)))

    @property
    def removed(self) -> IntArray:
        """By how many replicas each partition shrinks, shape (n,); see `Change.removed`. A removal copies nothing."""
        shrunk: IntArray = np.maximum(_sizes(self.before) - _sizes(self.replicas), 0)
        return shrunk

    def leaving(self) -> Counter[int]:
        """Return how many replicas each broker loses."""
        gone = ~in_row(self.before, self.replicas) & (self.before != NONE)
        return Counter(self.before[gone].tolist())

    def add_to(self, digest: "_Hash", topics: IntArray) -> None:
        """Add the changes to a hash. A topic counts as its place among `topics`, which are ascending indices."""
        for column in (np.searchsorted(topics, self.topic), self.number):
            digest.update(column.astype("<i8").tobytes())
        for rows in (self.replicas, self.before):
            digest.update(_sizes(rows).astype("<i8").tobytes())
            digest.update(rows[rows != NONE].astype("<i4").tobytes())

    def _rows(self, some: slice | IntArray) -> Self:
        return replace(
            self,
            topic=self.topic[some],
            number=self.number[some],
            replicas=self.replicas[some],
            before=self.before[some],
            size_bytes=self.size_bytes[some],
        )


def stacked(parts: Sequence[npt.NDArray[np.integer]]) -> IntArray:
    """Return the rows of all parts, padded to one width."""
    if len(parts) == 1:
        return np.asarray(parts[0], dtype=np.int64)
    width = max(part.shape[1] for part in parts)
    return np.concatenate([of_width(part, width) for part in parts], dtype=np.int64)


def _sizes(rows: npt.NDArray[np.integer]) -> IntArray:
    sizes: IntArray = (rows != NONE).sum(axis=1)
    return sizes
