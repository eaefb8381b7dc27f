"""The worker process: Kafka clients, and one connection over which the operator calls them.

`python -m rackspan.kafka.worker.process FD MEMORY NICENESS ANSWER DEBUG` takes the descriptor of the connection, the
bytes of memory that the process may use, its niceness, the bytes of its longest answer, and 1 to send its log lines.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from rackspan.api.reasons import Reason
from rackspan.core.text import shown
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.kafka_errors import failure_of
from rackspan.kafka.oauth_login import uses_tokens
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
from rackspan.kafka.worker.confinement import confine
from rackspan.reconcile.failures import GIVEN_UP, Failure, FailureError, Remedy
from rackspan.reconcile.runtime.lease import uptime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AT_ONCE = 32
"""Clients that wait for their first token in parallel: a token endpoint may take seconds to fail."""
_LONGEST_REQUEST = 1 << 30
"""High, because the operator is trusted."""
_NOTHING = msgspec.Raw(msgspec.msgpack.encode(None))


class _OperatorsPermit:
    """Implements `Permit`: the operator sends a change with the time by which it must have ended."""

    def __init__(self) -> None:
        self.until = 0.0

    @property
    def change_timeout_seconds(self) -> float:
        """The remaining seconds, at least 0.1."""
        return max(self.until - uptime(), 0.1)

    def check(self) -> None:
        """Raise FailureError if no time is left."""
        if uptime() >= self.until:
            why = "the change waited too long for the Kafka client"
            raise FailureError(Failure(Reason.LEASE_NOT_HELD, f"nothing is changed: {why}", Remedy.RETRY))


class _Server:
    """Answers requests, each in a separate task."""

    def __init__(self, writer: asyncio.StreamWriter, longest_answer: int) -> None:
        self._writer = writer
        self._longest = longest_answer
        self._permit = _OperatorsPermit()
        self._clients: dict[int, ConfluentAdmin] = {}
        self._wanted: set[int] = set()
        """The numbers of clients that the operator has not closed, whether they are connected yet or not."""
        self._waiting = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="kafka-login")

    async def answer(self, request: Request) -> None:
        """Send the result of the call, or its failure."""
        failure, value = None, _NOTHING
        try:
            value = msgspec.Raw(msgspec.msgpack.encode(await self._value(request)))
            if len(value) > self._longest:
                raise FailureError(_too_long(request.call, len(value), self._longest))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except Exception as error:  # such as text from Kafka that is not UTF-8
            failure = error.failure if isinstance(error, FailureError) else failure_of(error)
            failure, value = replace(failure, what=shown(failure.what)), _NOTHING
        write_frame(self._writer, Answer(request.id, failure, value))
        await self._writer.drain()

    async def _value(self, request: Request) -> Any:
        arguments = _arguments(request.call).decode(request.arguments)
        if request.call == "connect":
            self._wanted.add(request.client)
            client = await self._connected(*arguments)
            if request.client not in self._wanted:
                return await client.close()
            self._clients[request.client] = client
            return None
        if request.call == "close":
            self._wanted.discard(request.client)
            closing = self._clients.pop(request.client, None)
            return None if closing is None else await closing.close()
        self._permit.until = max(self._permit.until, request.until)
        if request.client not in self._clients:  # closed before the call
            raise FailureError(GIVEN_UP)
        found = await getattr(self._clients[request.client], request.call)(*arguments)
        return _apart(found) if request.call in ("topics", "configs") else found

    async def _connected(self, kind: ClientKind, properties: Mapping[str, str | int | bool]) -> ConfluentAdmin:
        """Return a client after its first response, so that connecting fails if an address or a password is wrong."""
        if uses_tokens(properties):  # it waits for its first token, and must not block other clients
            loop = asyncio.get_running_loop()
            client = await loop.run_in_executor(self._waiting, self._client, kind, properties)
        else:
            client = self._client(kind, properties)
        try:
            await client.cluster()
        except BaseException:
            await client.close()
            raise
        return client

    def _client(self, kind: ClientKind, properties: Mapping[str, str | int | bool]) -> ConfluentAdmin:
        if kind is ClientKind.TOPICS:
            return ConfluentAdmin(properties, self._permit)
        from rackspan.kafka.kafka_reassignments import KafkaReassignments  # noqa: PLC0415 - kafka-python takes 13 MiB

        return KafkaReassignments(properties, self._permit)


class _LogLines(logging.Handler):
    """Sends the lines of the clients' logs, which librdkafka writes in its own threads."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._writer = writer
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one line."""
        line = msgspec.Raw(msgspec.msgpack.encode(shown(record.getMessage())))
        self._loop.call_soon_threadsafe(write_frame, self._writer, Answer(LOG_LINE, None, line))


@cache
def _arguments(call: str) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(CALLS[call].arguments)


def _apart(found: Mapping[str, Any]) -> Mapping[str, tuple[Any, Failure | None]]:
    """Return topics, or their configurations, and failures in separate fields."""
    return {name: (None, one) if isinstance(one, Failure) else (one, None) for name, one in found.items()}


def _too_long(call: str, length: int, most: int) -> Failure:
    what = f"Kafka's answer to {CALLS[call].operation} takes {length:,} bytes, and at most {most:,} are read"
    return Failure(Reason.KAFKA_CLIENT_FAILED, f"{what}: give its Kafka clients more memory", Remedy.RETRY)


async def _serve(connection: socket.socket, longest_answer: int, *, debug: bool) -> None:
    reader, writer = await asyncio.open_connection(sock=connection)
    if debug:
        logger = logging.getLogger("rackspan.kafka")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(_LogLines(writer))
    server = _Server(writer, longest_answer)
    tasks: set[asyncio.Task[None]] = set()
    while True:
        try:
            request = msgspec.msgpack.decode(await read_frame(reader, _LONGEST_REQUEST), type=Request)
        except (asyncio.IncompleteReadError, OSError):
            os._exit(0)  # the operator has ended, or no longer needs this process
        task = asyncio.create_task(server.answer(request))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def main(arguments: Sequence[str]) -> None:
    """Serve one connection until it ends."""
    descriptor, memory, niceness, longest_answer, debug = map(int, arguments)
    confine(memory, niceness)
    asyncio.run(_serve(socket.socket(fileno=descriptor), longest_answer, debug=bool(debug)))


if __name__ == "__main__":
    main(sys.argv[1:])
