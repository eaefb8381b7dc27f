"""Admin API calls in batches: few of them, and each below the limit of Kafka's controller.

KRaft caps one controller operation at 10,000 metadata records (QuorumController.MAX_RECORDS_PER_USER_OP): a request
above it fails for all its topics. A topic costs one record, one per partition and one per configuration key.

Group commit: one call of each kind at a time per cluster; requests that arrive meanwhile share the next call. A call
costs brokers more than the topics in it. Batches so grow with Kafka's latency by themselves, and a request is sent at
once while no call is under way.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from rackspan.metrics import BATCH_TOPICS
from rackspan.reconcile.failures import FailureError, Remedy
from rackspan.reconcile.runtime.waiting import waiting_for_others

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import (
        ConfigChange,
        KafkaAdmin,
        NewPartitions,
        NewTopic,
        Outcomes,
        TopicConfig,
        TopicDescription,
    )


T = TypeVar("T")
R = TypeVar("R")

MAX_RECORDS = 3_000
"""Metadata records per call: well below the cap, so that each call is answered soon."""

MAX_PARTITIONS_AT_ONCE = 9_000
"""A larger topic is created with this many partitions; the next reconciliations add the others."""

_MAX_NAMES = 1_000
"""Topics read by one call."""


def topic_records(topic: NewTopic) -> int:
    """Metadata records of a CreateTopics entry: the topic, its partitions and its configuration keys."""
    return 1 + topic.partitions + len(topic.config)


def partition_records(topic: NewPartitions) -> int:
    """Metadata records of a CreatePartitions entry; the upper bound `total` where Kafka chooses the assignment."""
    return topic.total if topic.assignment is None else len(topic.assignment)


def config_records(change: ConfigChange) -> int:
    """Metadata records of an IncrementalAlterConfigs entry."""
    return len(change.set)


def batches(items: Iterable[T], records: Callable[[T], int], limit: int = MAX_RECORDS) -> Iterator[list[T]]:
    """Split items, in order, into batches of at most `limit` records; a larger item is a batch of its own."""
    batch: list[T] = []
    total = 0
    for item in items:
        cost = records(item)
        if batch and total + cost > limit:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += cost
    if batch:
        yield batch


@dataclass(frozen=True, slots=True, eq=False)
class _Request(Generic[T, R]):
    items: Mapping[str, T]
    cost: int
    answer: asyncio.Future[Mapping[str, R]]


class CommitGroup(Generic[T, R]):
    """Groups requests for one kind of call; items and answers are by topic name.

    A call takes requests until the sum of `cost` over their items reaches `limit`, and no name twice. A request never
    joins a call that is under way, so that what is read after a change was confirmed includes that change.
    """

    def __init__(
        self, call: Callable[[Sequence[T]], Awaitable[Mapping[str, R]]], cost: Callable[[T], int], limit: int
    ) -> None:
        self._call = call
        self._cost = cost
        self._limit = limit
        self._waiting: list[_Request[T, R]] = []
        self._runner: asyncio.Task[None] | None = None

    async def submit(self, items: Mapping[str, T]) -> Mapping[str, R]:
        """The answers by topic name. Raises FailureError where the call failed as a whole."""
        if not items:
            return {}
        answer: asyncio.Future[Mapping[str, R]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Request(items, sum(map(self._cost, items.values())), answer))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run())
        with waiting_for_others():
            return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._answer(self._next())
        finally:
            self._runner = None

    def _next(self) -> Sequence[_Request[T, R]]:
        """The requests of the next call, in order; cancelled ones are dropped."""
        waiting = [request for request in self._waiting if not request.answer.done()]
        chosen: list[_Request[T, R]] = []
        names: set[str] = set()
        total = 0
        for request in waiting:
            if chosen and (total + request.cost > self._limit or not names.isdisjoint(request.items)):
                break
            chosen.append(request)
            names.update(request.items)
            total += request.cost
        self._waiting = waiting[len(chosen) :]
        return chosen

    async def _answer(self, requests: Sequence[_Request[T, R]]) -> None:
        try:
            found = await self._call([item for request in requests for item in request.items.values()])
        except FailureError as error:
            if len(requests) > 1 and error.failure.remedy is not Remedy.RETRY:
                for request in requests:  # one of them may be what is wrong with it
                    await self._answer([request])
            else:
                _fail(requests, error)
        except Exception as error:
            _fail(requests, error)
        else:
            for request in requests:
                if not request.answer.done():
                    request.answer.set_result({name: found[name] for name in request.items if name in found})


def _fail(requests: Sequence[_Request[T, R]], error: Exception) -> None:
    for request in requests:
        if not request.answer.done():
            request.answer.set_exception(error)


class GroupedAdmin:
    """One cluster's Admin API, whose calls about topics go in groups; implements `KafkaAdmin`.

    Deletions do not, here: much has to be asked right before one, so `topics.finalizer` groups all of that.
    """

    def __init__(self, admin: KafkaAdmin) -> None:
        self._topics: CommitGroup[str, TopicDescription | Failure | None] = CommitGroup(admin.topics, _one, _MAX_NAMES)
        self._configs: CommitGroup[str, TopicConfig] = CommitGroup(admin.configs, _one, _MAX_NAMES)
        self._creations: CommitGroup[NewTopic, Failure | None] = CommitGroup(
            _counted("create_topics", admin.create_topics), topic_records, MAX_RECORDS
        )
        self._growths: CommitGroup[NewPartitions, Failure | None] = CommitGroup(
            _counted("create_partitions", admin.create_partitions), partition_records, MAX_RECORDS
        )
        self._changes: CommitGroup[ConfigChange, Failure | None] = CommitGroup(
            _counted("alter_configs", admin.alter_configs), config_records, MAX_RECORDS
        )
        self.delete_topics = admin.delete_topics
        self.cluster = admin.cluster
        self.replica_counts = admin.replica_counts
        self.remaining_replicas = admin.remaining_replicas
        self.hosted = admin.hosted
        self.assignments = admin.assignments
        self.default_min_insync = admin.default_min_insync
        self.cordoned = admin.cordoned
        self.cordon = admin.cordon
        self.uncordon = admin.uncordon
        self.close = admin.close

    async def topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure | None]:
        """Each named topic; its state is not older than the request."""
        return await self._topics.submit({name: name for name in names})

    async def configs(self, names: Collection[str]) -> Mapping[str, TopicConfig]:
        """Each topic's configuration; not older than the request."""
        return await self._configs.submit({name: name for name in names})

    async def create_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Create topics, each of another name."""
        return await self._creations.submit({topic.name: topic for topic in topics})

    async def create_partitions(self, topics: Sequence[NewPartitions]) -> Outcomes:
        """Add partitions, to each topic once."""
        return await self._growths.submit({topic.name: topic for topic in topics})

    async def alter_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Set keys, on each topic once."""
        return await self._changes.submit({change.name: change for change in changes})


def _counted(operation: str, call: Callable[[Sequence[T]], Awaitable[R]]) -> Callable[[Sequence[T]], Awaitable[R]]:
    """The same call, with the number of its topics measured."""

    async def called(items: Sequence[T]) -> R:
        BATCH_TOPICS.labels(operation).observe(len(items))
        return await call(items)

    return called


def _one(_: str) -> int:
    return 1
