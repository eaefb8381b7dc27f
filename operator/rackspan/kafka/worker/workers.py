"""Starts worker processes, and implements `KafkaAdmin` and `ReassignmentAdmin` by calls to them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from rackspan.api.reasons import Reason
from rackspan.core.text import shown
from rackspan.kafka.client_config import client_properties
from rackspan.kafka.worker.calls import (
    CALLS,
    LOG_LINE,
    OUT_OF_MEMORY,
    Answer,
    ClientKind,
    Request,
    read_frame,
    write_frame,
)
from rackspan.kafka.worker.places import Places, WorkerLimits
from rackspan.metrics import KAFKA_CLIENT_PROCESSES, KAFKA_SECONDS, count_client_failure
from rackspan.reconcile.failures import GIVEN_UP, Failure, FailureError, Remedy
from rackspan.reconcile.ports import AlwaysPermitted
from rackspan.reconcile.runtime.lease import uptime
from rackspan.reconcile.runtime.waiting import waiting_for_others

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence

    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import KafkaSpec
    from rackspan.core.partitions import Disk, InSync, PartitionState, Setting, SettingChange, TopicPartition
    from rackspan.kafka.worker.places import Boundary
    from rackspan.reconcile.ports import (
        ClusterDescription,
        ConfigChange,
        Credentials,
        NewPartitions,
        NewTopic,
        Outcomes,
        Permit,
        RemainingReplicas,
        ReplicaCounts,
        TopicConfig,
        TopicDescription,
    )

T = TypeVar("T")
_log = logging.getLogger("rackspan.kafka")

_MODULE = "rackspan.kafka.worker.process"
_CALL_SECONDS = 150.0
"""Longer than all tries of a call in the worker together."""
_CLOSE_SECONDS = 5.0
"""The limit of `close`. A worker that exceeds it hangs: it closes a client at once, without waiting for Kafka."""
_LINGER_SECONDS = 30.0
"""How long a worker without clients is kept if no other starts: a failed topology connects again within 15 s."""
_END_SECONDS = 2.0
_UNTRUSTED_NICENESS = 10
_ANSWER_SHARE = 64
"""The worker's memory divided by the longest response. As Python objects, it takes up to 36 times its length."""
_LONGEST_ANSWER = 32 << 20
_COMMAND_MEMORY = 8 << 30
_MOST_WORDS = 2_000
"""Bytes of the process's stderr that are logged when it has failed."""
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
_VARIABLES = {"MALLOC_ARENA_MAX": "2", "PYTHONDONTWRITEBYTECODE": "1"}
_UNREADABLE = (msgspec.MsgspecError, ValueError)
_ANOTHERS_TURN = Failure(Reason.KAFKA_CLIENT_WAITING, "another namespace takes its turn", Remedy.RETRY)


class Workers:
    """The worker processes of one operator."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._places = Places(limits)
        self._workers: dict[Boundary, Worker] = {}

    def of(self, owner: ObjectKey) -> Worker:
        """Return the worker for a topology's clients, started if needed. Raises FailureError if it has to wait."""
        boundary = self._places.boundary(owner, time.monotonic())
        worker = self._workers.get(boundary)
        if worker is None:
            for other in list(self._workers.values()):
                self.release(other)
            leaving = self._places.enter(boundary, time.monotonic())
            if leaving is not None:
                self._workers.pop(leaving).end(_ANOTHERS_TURN)
            memory = self._limits.trusted_memory if boundary.trusted else self._limits.untrusted_memory
            try:
                worker = self._workers[boundary] = Worker(boundary, memory, self._failed)
            except OSError as error:
                self._places.leave(boundary)
                raise FailureError(_of_client(f"its process cannot be started: {error.strerror}")) from error
            finally:
                self._count()
        return worker

    def release(self, worker: Worker) -> None:
        """End the worker if it has no clients."""
        if not worker.clients and self._workers.get(worker.boundary) is worker:
            del self._workers[worker.boundary]
            self._places.leave(worker.boundary)
            worker.end(GIVEN_UP)
            self._count()

    async def close(self) -> None:
        """End all workers."""
        workers, self._workers = list(self._workers.values()), {}
        for worker in workers:
            worker.end(GIVEN_UP)
        await asyncio.gather(*(worker.wait() for worker in workers))
        self._count()

    def _failed(self, worker: Worker, failure: Failure, suspects: Collection[ObjectKey]) -> None:
        if self._workers.get(worker.boundary) is worker:
            del self._workers[worker.boundary]
            self._places.fail(worker.boundary, failure, suspects, time.monotonic())
            count_client_failure(worker.boundary.name)
            self._count()

    def _count(self) -> None:
        for trusted in (True, False):
            running = sum(one.trusted is trusted for one in self._workers)
            KAFKA_CLIENT_PROCESSES.labels(str(trusted).lower()).set(running)


class Worker:
    """One worker process, and the calls to it."""

    def __init__(
        self, boundary: Boundary, memory: int, failed: Callable[[Worker, Failure, Collection[ObjectKey]], None]
    ) -> None:
        self.boundary = boundary
        self.clients: set[int] = set()
        self._memory = memory
        self._failed = failed
        self._ended: Failure | None = None
        """The failure of calls after the process has ended or is being ended."""
        self._fault = ""
        self._numbers = itertools.count(1)
        self._pending: dict[int, tuple[asyncio.Future[Answer], ObjectKey]] = {}
        self._abandoned: set[int] = set()
        """The ids of requests whose callers do not wait for the response any more."""
        self._longest_answer = min(memory // _ANSWER_SHARE, _LONGEST_ANSWER)
        self._words = os.memfd_create("kafka-client")
        self._debug = _log.isEnabledFor(logging.DEBUG)
        niceness = 0 if boundary.trusted else _UNTRUSTED_NICENESS
        with contextlib.ExitStack() as unless_started:
            unless_started.callback(os.close, self._words)
            ours, theirs = socket.socketpair()
            unless_started.callback(ours.close)
            arguments = (theirs.fileno(), memory, niceness, self._longest_answer, int(self._debug))
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - this interpreter and a module of this package
                    [sys.executable, "-m", _MODULE, *map(str, arguments)],
                    env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ} | _VARIABLES,
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._words,
                    start_new_session=True,  # Ctrl-C in a terminal must reach only the operator, which ends its workers
                )
            unless_started.pop_all()
        self._connection = asyncio.ensure_future(asyncio.open_connection(sock=ours))
        self._life = asyncio.create_task(self._read(), name=f"Kafka clients of {boundary}")

    def new_client(self) -> int:
        """Register a client that is about to be created, and return its number."""
        number = next(self._numbers)
        self.clients.add(number)
        return number

    async def call(self, client: int, owner: ObjectKey, name: str, arguments: Sequence[Any], until: float) -> Any:
        """Return the response to one call. Raises FailureError."""
        _, writer = await asyncio.shield(self._connection)
        if self._ended is not None:
            raise FailureError(self._ended)
        operation, number, started = CALLS[name].operation, next(self._numbers), time.perf_counter()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[number] = future, owner
        write_frame(writer, Request(number, client, name, msgspec.Raw(msgspec.msgpack.encode(arguments)), until))
        try:
            with waiting_for_others():
                async with asyncio.timeout(_CLOSE_SECONDS if name == "close" else _CALL_SECONDS):
                    answer = await future
        except TimeoutError:
            what = f"Kafka has not answered {operation} within {_CALL_SECONDS:g} s"
            raise FailureError(Failure(Reason.KAFKA_UNREACHABLE, what, Remedy.RETRY)) from None
        finally:
            if self._pending.pop(number, None) is not None:
                self._abandoned.add(number)
            if name != "close":
                KAFKA_SECONDS.labels(operation).observe(time.perf_counter() - started)
        if answer.failure is not None:
            raise FailureError(_printable(answer.failure))
        try:
            return _answers(name).decode(answer.value)
        except _UNREADABLE as error:
            self.kill(f"sent an answer to {operation} that cannot be read")
            raise FailureError(_of_client("an answer cannot be read")) from error

    def kill(self, fault: str) -> None:
        """End the process because of a fault in the process."""
        self._fault = self._fault or fault
        self._process.kill()

    def end(self, failure: Failure) -> None:
        """End the process, which is no longer needed. Calls in progress fail with `failure`."""
        self._ended = failure
        self._fail_calls(failure)
        self._process.kill()

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await asyncio.wait([self._life])

    async def _read(self) -> None:
        """Receive responses until the process ends, and report why it ended."""
        try:
            reader, _ = await asyncio.shield(self._connection)
            while True:
                self._take(msgspec.msgpack.decode(await read_frame(reader, self._longest_answer * 2), type=Answer))
        except (asyncio.IncompleteReadError, OSError):
            pass
        except _UNREADABLE:
            self._fault = "sent something that is not an answer"
        except asyncio.CancelledError:  # the operator ends
            self.end(GIVEN_UP)
            raise
        finally:
            code = await asyncio.to_thread(self._reap)
            (await asyncio.shield(self._connection))[1].close()
            if self._ended is None:
                self._report_end(code)
            os.close(self._words)

    def _take(self, answer: Answer) -> None:
        if answer.id in self._pending:
            future, _ = self._pending.pop(answer.id)
            if not future.done():
                future.set_result(answer)
        elif answer.id == LOG_LINE and self._debug:
            _log.debug("%s: %s", self.boundary, shown(msgspec.msgpack.decode(answer.value, type=str)))
        elif answer.id in self._abandoned:
            self._abandoned.remove(answer.id)
        else:
            raise ValueError(answer.id)

    def _reap(self) -> int:
        """Return the exit code, negative for a signal. Blocks. Kills the process if it does not end in time."""
        if self._fault:
            self._process.kill()
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _report_end(self, code: int) -> None:
        if self._fault:
            how = self._fault
        elif code == OUT_OF_MEMORY:
            how = "needed more memory than that"
        else:
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        mebibytes = self._memory >> 20
        failure = self._ended = _of_client(
            f"its process, which may use {mebibytes} MiB of memory, {how}. It starts again within a minute. The cause "
            "is an answer of this Kafka, or a cluster too large for the limit, which the chart's values under kafka set"
        )
        suspects = {owner for _, owner in self._pending.values()}
        _log.error(
            "Kafka clients of %s: %s; calls under way for %s; last words: %s",
            self.boundary,
            failure.message,
            ", ".join(sorted(map(str, suspects))) or "nobody",
            shown(os.pread(self._words, _MOST_WORDS, 0).decode(errors="backslashreplace")) or "none",
        )
        self._fail_calls(failure)
        self._failed(self, failure, suspects)

    def _fail_calls(self, failure: Failure) -> None:
        for future, _ in self._pending.values():
            if not future.done():
                future.set_exception(FailureError(failure))


class WorkerConnector:
    """Creates clients in worker processes; implements `KafkaConnector` or `ReassignmentConnector`, by `kind`."""

    def __init__(self, workers: Workers, kind: ClientKind, permit: Permit) -> None:
        self._workers = workers
        self._kind = kind
        self._permit = permit

    async def connect(self, owner: ObjectKey, kafka: KafkaSpec, credentials: Credentials) -> WorkerClient:
        """Return a client after Kafka's first response. Raises FailureError with the cause if there is none."""
        properties = client_properties(kafka, credentials)
        client = WorkerClient(self._workers, owner, self._permit)
        try:
            await client.connect(self._kind, properties)
        except BaseException:
            await client.close()
            raise
        return client


@contextlib.asynccontextmanager
async def for_a_command(kind: ClientKind) -> AsyncIterator[WorkerConnector]:
    """Yield a connector for a command that a user runs: without a Lease, and with more memory than in the operator."""
    workers = Workers(WorkerLimits(untrusted_memory=_COMMAND_MEMORY))
    try:
        yield WorkerConnector(workers, kind, AlwaysPermitted())
    finally:
        await workers.close()


class WorkerClient:
    """One client in a worker process; implements `KafkaAdmin` and `ReassignmentAdmin`."""

    def __init__(self, workers: Workers, owner: ObjectKey, permit: Permit) -> None:
        """Raise FailureError if there is no worker for the topology now."""
        self._workers = workers
        self._owner = owner
        self._permit = permit
        self._worker = workers.of(owner)
        self._number = self._worker.new_client()

    async def connect(self, kind: ClientKind, properties: Mapping[str, str | int | bool]) -> None:
        """Create the client in its worker. Raises FailureError if Kafka does not respond."""
        await self._ask("connect", kind, properties)

    async def close(self) -> None:
        """Close the connections and end the threads. Calls in progress raise FailureError."""
        if self._number not in self._worker.clients:
            return
        self._worker.clients.remove(self._number)
        try:
            await self._ask("close")
        except FailureError:
            self._worker.kill("did not answer in time")  # or has ended already
        finally:
            if not self._worker.clients:
                asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._workers.release, self._worker)

    # --- KafkaAdmin --------------------------------------------------------------------------------------------------

    async def cluster(self) -> ClusterDescription:
        """Return the cluster id and the brokers that are alive (DescribeCluster)."""
        return await self._ask("cluster")

    async def replica_counts(self, without: Collection[str] = ()) -> ReplicaCounts:
        """Return the replicas and preferred leaders per broker, over all topics except `without` (Metadata)."""
        return await self._ask("replica_counts", list(without))

    async def remaining_replicas(self, brokers: Collection[int]) -> RemainingReplicas:
        """Return the replicas on these brokers, alive or not (Metadata)."""
        return await self._ask("remaining_replicas", list(brokers))

    async def hosted(self, broker: int) -> Sequence[InSync]:
        """Return the partitions with a replica on this broker (Metadata)."""
        return await self._ask("hosted", broker)

    async def assignments(self) -> Mapping[str, tuple[tuple[int, ...], ...]]:
        """Return the replicas of each partition, by topic (Metadata)."""
        return await self._ask("assignments")

    async def default_min_insync(self, brokers: Sequence[int]) -> int | None:
        """Return the brokers' default min.insync.replicas, or None if it cannot be read. Never raises."""
        try:
            return await self._ask("default_min_insync", list(brokers))
        except FailureError:
            return None

    async def cordoned(self, brokers: Sequence[int]) -> Mapping[int, bool | None]:
        """Return whether all log directories are cordoned, of each broker that reports it. Never raises."""
        try:
            return await self._ask("cordoned", list(brokers))
        except FailureError:
            return {}

    async def cordon(self, brokers: Sequence[int]) -> Mapping[int, Failure | None]:
        """Cordon all log directories of brokers."""
        return await self._change("cordon", list(brokers)) if brokers else {}

    async def uncordon(self, brokers: Sequence[int]) -> Mapping[int, Failure | None]:
        """Remove the cordons that `cordon` has set."""
        return await self._change("uncordon", list(brokers)) if brokers else {}

    async def topics(self, names: Collection[str]) -> Mapping[str, TopicDescription | Failure | None]:
        """Return by name: the topic, None if it does not exist, or a Failure if only this topic cannot be read."""
        found: Mapping[str, tuple[TopicDescription | None, Failure | None]] = await self._ask("topics", list(names))
        return {name: topic if failure is None else _printable(failure) for name, (topic, failure) in found.items()}

    async def configs(self, names: Collection[str]) -> Mapping[str, TopicConfig | Failure]:
        """Return by name: the topic's configuration, or why it cannot be read. Missing topics are left out."""
        found: Mapping[str, tuple[TopicConfig, Failure | None]] = await self._ask("configs", list(names))
        return {name: config if failure is None else _printable(failure) for name, (config, failure) in found.items()}

    async def create_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Create topics in one controller operation."""
        return await self._change("create_topics", topics)

    async def create_partitions(self, topics: Sequence[NewPartitions]) -> Outcomes:
        """Add partitions in one controller operation."""
        return await self._change("create_partitions", topics)

    async def alter_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Set configuration keys and leave other keys unchanged (KIP-339)."""
        return await self._change("alter_configs", changes)

    async def validate_topics(self, topics: Sequence[NewTopic]) -> Outcomes:
        """Check whether topics could be created, without creating them."""
        return await self._change("validate_topics", topics)

    async def validate_configs(self, changes: Sequence[ConfigChange]) -> Outcomes:
        """Check whether configuration keys could be set, without setting them."""
        return await self._change("validate_configs", changes)

    async def delete_topics(self, ids: Mapping[str, str]) -> Outcomes:
        """Delete topics; `ids` has the topic id last seen under each name."""
        return await self._change("delete_topics", ids)

    # --- ReassignmentAdmin -------------------------------------------------------------------------------------------

    async def partitions(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        """Return the partitions of some topics and their reassignments. Topics that do not exist are left out."""
        return await self._ask("partitions", list(topics))

    async def topic_names(self) -> Collection[str]:
        """Return the names of all topics that the client can see."""
        return await self._ask("topic_names")

    async def min_insync(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the effective min.insync.replicas of each topic, if it can be read."""
        return await self._ask("min_insync", list(topics))

    async def disks(self, brokers: Collection[int]) -> Mapping[int, Disk]:
        """Return the space on brokers' disks. Brokers that do not report it are left out."""
        return await self._ask("disks", list(brokers))

    async def sizes(
        self, partitions: Mapping[TopicPartition, Collection[int]]
    ) -> Mapping[tuple[TopicPartition, int], int]:
        """Return the bytes of replicas on the given brokers. Unknown sizes are left out."""
        asked = {partition: list(brokers) for partition, brokers in partitions.items()}
        return await self._ask("sizes", asked)

    async def alter(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], same_size: Collection[TopicPartition] = ()
    ) -> Mapping[TopicPartition, Failure | None]:
        """Request new replica lists, or cancel reassignments under way (KIP-455)."""
        return await self._change("alter", targets, list(same_size))

    async def elect(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Failure | None]:
        """Elect the preferred leaders (KIP-460)."""
        return await self._change("elect", partitions)

    async def settings(self, wanted: Collection[Setting]) -> Mapping[Setting, str | Failure | None]:
        """Return the configs set directly on brokers and topics, None for configs that are not set."""
        found: Mapping[Setting, str | Failure | None] = await self._ask("settings", list(wanted))
        return {key: _printable(one) if isinstance(one, Failure) else one for key, one in found.items()}

    async def set_settings(self, changes: Mapping[Setting, SettingChange]) -> Mapping[Setting, Failure | None]:
        """Set, change or delete dynamic configs."""
        return await self._change("set_settings", changes)

    async def _ask(self, name: str, *arguments: Any) -> T:
        """Return the response, which has the type that CALLS has for this call."""
        answer: T = await self._worker.call(self._number, self._owner, name, arguments, until=0.0)
        return answer

    async def _change(self, name: str, *changes: Any) -> Mapping[Any, Failure | None]:
        """Send a change that must end while the permit lasts: the worker does not know the Lease."""
        self._permit.check()
        until = uptime() + self._permit.change_timeout_seconds
        outcomes = await self._worker.call(self._number, self._owner, name, changes, until)
        return {key: None if failure is None else _printable(failure) for key, failure in outcomes.items()}


@cache
def _answers(name: str) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(CALLS[name].answer)


def _of_client(what: str) -> Failure:
    return Failure(Reason.KAFKA_CLIENT_FAILED, f"the Kafka client of this topology failed: {what}", Remedy.RETRY)


def _printable(failure: Failure) -> Failure:
    """Return the failure with a text that is safe to show: Kafka's text can have any characters and any length."""
    return replace(failure, what=shown(failure.what))
