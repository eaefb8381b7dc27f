"""kafka-python's admin client, extended by requests to many brokers in parallel, each with a time limit."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, for_code
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_FIRST_TRY_MS = 3_000
"""The time limit of the first connection to a bootstrap server. It doubles with each further attempt."""
_PREFERRED = 0  # of ElectLeaders' two types


class _Connections(KafkaConnectionManager):  # type: ignore[misc, unused-ignore]
    """Tries another bootstrap server if one hangs. The library waits for the first server until the timeout."""

    def __init__(self, *arguments: Any, **configs: Any) -> None:
        super().__init__(*arguments, **configs)
        self._tries: Counter[str] = Counter()

    def get_connection(self, node_id: Any, timeout_ms: float | None = None, **how: Any) -> Any:
        """Return a connection to a broker or a bootstrap server. The library passes `timeout_ms` for the latter."""
        connection = super().get_connection
        if timeout_ms is None:
            return connection(node_id, **how)
        found = connection(node_id, min(timeout_ms, _FIRST_TRY_MS * 2 ** self._tries[node_id]), **how)
        self._tries[node_id] += 1
        return found


def _net_client(**configs: Any) -> KafkaNetClient:
    net = NetworkSelector(**configs)
    return KafkaNetClient(net, _Connections(net, **configs), **configs)


class PythonAdmin(KafkaAdminClient):  # type: ignore[misc, unused-ignore]
    """An admin client that returns the responses of brokers unchanged, within a time limit.

    The library's own calls send to one broker after the other, stop at the first offline broker, and drop the error
    message of a single resource.
    """

    def __init__(self, **configs: Any) -> None:
        """Connect. Raises the library's exceptions."""
        try:
            super().__init__(**configs, kafka_client=_net_client)
        except BaseException:
            if hasattr(self, "_client"):  # it has a thread, which the library's own `close` leaves running
                self._client.close()
            raise

    def alter_partition_reassignments(
        self, reassignments: Mapping[Any, list[int] | None], seconds: float, *, resizing: bool = True
    ) -> Mapping[Any, Any]:
        """Return the error of each partition, with the broker's message; None if the reassignment was accepted.

        If `resizing` is false, Kafka 4.1 and later refuse to change the number of replicas (KIP-860).
        """
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=int(seconds * 1000),
            allow_replication_factor_change=resizing,
            topics=self._process_alter_partition_reassignments_input(reassignments),
        )
        answer = self._ask_controller(request, seconds)
        return {
            TopicPartition(topic.name, one.partition_index): (
                for_code(one.error_code)(one.error_message or "") if one.error_code else None
            )
            for topic in answer.responses
            for one in topic.partitions
        }

    def elect_preferred(self, partitions: Mapping[str, Sequence[int]], seconds: float) -> Any:
        """Return the response to ElectLeaders for partitions by topic. Raises the library's exceptions."""
        request = ElectLeadersRequest(
            election_type=_PREFERRED, topic_partitions=list(partitions.items()), timeout_ms=int(seconds * 1000)
        )
        return self._ask_controller(request, seconds)

    def brokers(self) -> Sequence[int]:
        """Return the ids of the brokers in the cluster's metadata."""
        return sorted(broker.node_id for broker in self._manager.cluster.brokers())

    def ask(self, request: Any, seconds: float, broker: int | None = None) -> Any:
        """Return the response of `broker`, or of any broker if None. Raises the library's exceptions."""
        (answer,) = self._manager.run(self._asked, {broker: request}, seconds).values()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def ask_each(self, requests: Mapping[int, Any], seconds: float) -> Mapping[int, Any]:
        """Return the responses of brokers by id, requested in parallel. A broker without response has an exception."""
        answers: Mapping[int, Any] = self._manager.run(self._asked, requests, seconds)
        return answers

    def _ask_controller(self, request: Any, seconds: float) -> Any:
        """Return the response of the broker that the metadata name as controller. Sends nothing after the time limit.

        The library's own method waits for the metadata without a limit, and sends the request afterwards.
        """
        deadline = time.monotonic() + seconds
        controller = self.ask(MetadataRequest(topics=MetadataRequest.NO_TOPICS), seconds).controller_id
        answer = self.ask(request, deadline - time.monotonic(), controller)
        if code := getattr(answer, "error_code", 0):
            raise for_code(code)(getattr(answer, "error_message", None) or "")
        return answer

    async def _asked(self, requests: Mapping[int | None, Any], seconds: float) -> dict[int | None, Any]:
        deadline = time.monotonic() + seconds
        cluster = self._manager.cluster
        if any(one is not None and cluster.broker_metadata(one) is None for one in requests):
            # A broker may have joined the cluster since the client read the metadata.
            with contextlib.suppress(KafkaError, OSError):
                await self._within(deadline, self._manager.call_soon(cluster.refresh_metadata))
        begun = {broker: self._begun(broker, request, deadline) for broker, request in requests.items()}
        answers = {}
        for broker, future in begun.items():
            try:
                answers[broker] = await self._within(deadline, future)
            except (KafkaError, OSError) as error:
                answers[broker] = error
        return answers

    def _begun(self, broker: int | None, request: Any, deadline: float) -> Any:
        async def failed(error: Exception) -> None:
            raise error

        try:
            return self._manager.send(request, node_id=broker, request_timeout_ms=_milliseconds_until(deadline))
        except (KafkaError, OSError) as error:
            return self._manager.call_soon(failed, error)

    async def _within(self, deadline: float, future: Any) -> Any:
        # The request's own limit starts only when the connection is open.
        return await self._manager.wait_for(future, _milliseconds_until(deadline))


def _milliseconds_until(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0) * 1000
