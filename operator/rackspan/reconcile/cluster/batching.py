"""Admin API calls in batches: few calls, each below the limit of Kafka's controller.

KRaft caps one controller operation at 10,000 metadata records (QuorumController.MAX_RECORDS_PER_USER_OP): a request
above the cap fails for all its topics. A topic costs one record, plus one per partition and one per configuration key.

Group commit: one call of each kind runs at a time per cluster, and requests that arrive meanwhile share the next call.
A call costs brokers more than the topics in it. So batches grow automatically with Kafka's latency, and a request is
sent immediately if no call is running.
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
"""The most metadata records per call: well below the cap, so that each call gets a response soon."""

MAX_PARTITIONS_AT_ONCE = 9_000
"""A larger topic is created with this many partitions; the next reconciliations add the others."""

_MAX_NAMES = 1_000
"""The most topics read by one call."""


def topic_records(topic: NewTopic) -> int:
    """Return the metadata records of a CreateTopics entry: the topic, its partitions and its configuration keys."""
    return 1 + topic.partitions + len(topic.config)


def partition_records(topic: NewPartitions) -> int:
    """Return the metadata records of a CreatePartitions entry; at most `total` if Kafka chooses the brokers."""
    return topic.total if topic.assignment is None else len(topic.assignment)


def config_records(change: ConfigChange) -> int:
    """Return the metadata records of an IncrementalAlterConfigs entry."""
    return len(change.set)


def batches(items: Iterable[T], records: Callable[[T], int], limit: int = MAX_RECORDS) -> Iterator[list[T]]:
    """Split items, in order, into batches of at most `limit` records. A larger item gets its own batch."""
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
    """Groups requests for one kind of call. Items and responses are by topic name.

    A call takes requests until the sum of `cost` over their items reaches `limit`, and no name twice. A request never
    joins a running call, so that a read after a confirmed change includes that change.
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
        """Return the responses by topic name. Raises FailureError if the call failed as a whole."""
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
        """Return the requests of the next call, in order. Cancelled requests are dropped."""
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
                for request in requests:  # one of them may be the cause
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
    """One cluster's Admin API with grouped calls about topics. Implements `KafkaAdmin`.

    Deletions are not grouped here. They need checks just before, so `topics.topic_finalizer` groups both together.
    """

    def __init__(self, admin: KafkaAdmin) -> None:
        self._topics: CommitGroup[str, TopicDescription | Failure | None] = CommitGroup(admin.topics, _one, _MAX_NAMES)
        self._configs: CommitGroup[str, TopicConfig | Failure] = CommitGroup(admin.configs, _one, _MAX_NAMES)
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
        """Return each named topic, with a state that is not older than the request."""
        return await self._topics.submit({name: name for name in names})

    async def configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
        """Return each topic's configuration, which is not older than the request."""
        return await self._configs.submit({name: name for name in names})

    async def create_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Create topics with distinct names."""
        return await self._creations.submit({topic.name: topic for topic in topics})

    async def create_partitions(self, topics: Sequence[NewPartitions]) -> Outcomes:
        """Add partitions, once per topic."""
        return await self._growths.submit({topic.name: topic for topic in topics})

    async def alter_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Set configuration keys, once per topic."""
        return await self._changes.submit({change.name: change for change in changes})


def _counted(operation: str, call: Callable[[Sequence[T]], Awaitable[R]]) -> Callable[[Sequence[T]], Awaitable[R]]:
    """Return the same call, with the number of its topics measured."""

    async def called(items: Sequence[T]) -> R:
        BATCH_TOPICS.labels(operation).observe(len(items))
        return await call(items)

    return called


def _one(_: str) -> int:
    return 1
