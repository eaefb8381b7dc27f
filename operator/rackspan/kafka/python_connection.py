"""A kafka-python client in addition to librdkafka's, with the same properties, for calls that librdkafka lacks."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from kafka.errors import (
    AuthorizationError,
    BrokerResponseError,
    KafkaTimeoutError,
    NotControllerError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.errors import KafkaError as PythonKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.admin import DescribeTopicPartitionsRequest, ListPartitionReassignmentsRequest

from rackspan.api.reasons import Reason
from rackspan.core.partitions import ReassignedReplicas, TopicPartition
from rackspan.kafka.kafka_errors import refused_login
from rackspan.kafka.oauth_login import without_login
from rackspan.kafka.python_admin import PythonAdmin
from rackspan.kafka.python_client_config import UnsupportedPropertyError, python_client_properties
from rackspan.kafka.token_provider import cause, token_provider
from rackspan.reconcile.failures import GIVEN_UP, Failure, FailureError, KafkaSetting, Remedy, invalid_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rackspan.kafka.token_provider import TokenProvider

T = TypeVar("T")
_BOOTSTRAP_MS = 12_000
_MOST_BACKOFF_MS = 1_000
"""The longest reconnect backoff: short, so that the client soon uses a broker that is online again."""
_LIST_SECONDS = 5.0
_ELIGIBLE_SECONDS = 10.0
_PAGE = 2_000
"""Partitions per response: brokers send no more, whatever the request says (`max.request.partition.size.limit`)."""
_NO_ANSWER = (PythonKafkaError, OSError, RuntimeError)
_NO_ANSWER_IN_TIME = (KafkaTimeoutError, RequestTimedOutError)
_log = logging.getLogger("kafka")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # calls return the important errors


class _Tokens(AbstractTokenProvider):  # type: ignore[misc, unused-ignore]
    """Gives kafka-python the tokens, for each connection and before the broker ends a session (KIP-368)."""

    def __init__(self, tokens: TokenProvider) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        """Return the current token. Raises one of the library's exceptions, so that only this connection fails."""
        try:
            return self._tokens.token()
        except FailureError as error:
            raise SaslAuthenticationFailedError(str(error)) from error


class PythonConnection:
    """A client of one cluster. Connects at the first call and after each failure. Calls block and run one at a time."""

    def __init__(self, properties: Mapping[str, str | int | bool], tokens: TokenProvider | None = None) -> None:
        """Raise FailureError if kafka-python does not support one of librdkafka's `properties`, or cannot use it."""
        self.tokens = tokens or token_provider(properties)
        """The tokens that the client logs in with, or None if it logs in without tokens."""
        try:
            self._properties = python_client_properties(without_login(properties) if self.tokens else properties)
        except UnsupportedPropertyError as error:
            raise invalid_spec(str(error)) from error
        except (OSError, ValueError) as error:
            words = f"a certificate or key cannot be used: {getattr(error, 'strerror', None) or error}"
            raise FailureError(Failure(Reason.TLS_FAILED, words, Remedy.ACCESS, KafkaSetting.TLS)) from error
        if self.tokens is not None:
            self._properties["sasl_oauth_token_provider"] = _Tokens(self.tokens)
        self._admin: PythonAdmin | None = None
        self._lock = threading.Lock()
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether the last call succeeded; false before the first call."""
        return self._admin is not None

    def ask(self, question: Callable[[PythonAdmin], T]) -> T:
        """Return the result of `question`, with one retry. A failed client may keep a dead broker, so it is closed."""
        return self._asked(question, lambda error: not isinstance(error, BrokerResponseError) or error.retriable)

    def reassigned(self) -> Mapping[TopicPartition, ReassignedReplicas]:
        """Return the partitions that are being reassigned (KIP-455). Limited in time, except with ZooKeeper."""
        request = ListPartitionReassignmentsRequest(timeout_ms=int(_LIST_SECONDS * 1000), topics=None)
        answer = self._asked_within(request, _LIST_SECONDS)
        if answer.error_code == NotControllerError.errno:  # with ZooKeeper, brokers do not forward the request
            listed = self.ask(lambda admin: admin.list_partition_reassignments())
            return {
                TopicPartition(*at): _reassigned(lists["adding_replicas"], lists["removing_replicas"])
                for at, lists in listed.items()
            }
        if answer.error_code:
            raise FailureError(failure_of(for_code(answer.error_code)(answer.error_message or "")))
        return {
            TopicPartition(topic.name, one.partition_index): _reassigned(one.adding_replicas, one.removing_replicas)
            for topic in answer.topics
            for one in topic.partitions
        }

    def eligible(self, topics: Sequence[str]) -> Mapping[TopicPartition, frozenset[int]]:
        """Return the eligible leader replicas (KIP-966) of these topics' partitions, as far as they arrive in time.

        Partitions without any are left out. Raises FailureError, also if brokers are older than Kafka 3.7.
        """
        deadline = time.monotonic() + _ELIGIBLE_SECONDS
        found: dict[TopicPartition, frozenset[int]] = {}
        names, cursor = frozenset(topics), None
        asked = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(names)]
        while (left := deadline - time.monotonic()) > 0:
            request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=_PAGE, cursor=cursor)
            answer = self._asked_within(request, left)
            for topic in answer.topics:
                for one in topic.partitions:
                    if one.eligible_leader_replicas and topic.name in names:
                        found[TopicPartition(topic.name, one.partition_index)] = frozenset(one.eligible_leader_replicas)
            cursor = answer.next_cursor
            if cursor is None:
                break
        return found

    def close(self) -> None:
        """Close the connections in a separate thread. Calls in progress and later calls fail."""
        self._closed = True
        self._give_up()

    def _give_up(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            threading.Thread(target=admin.close, name="kafka-python-close", daemon=True).start()

    def _asked_within(self, request: Any, seconds: float) -> Any:
        """Return the response of any broker. A broker that hangs gets half of the time, and the retry the rest."""
        until = time.monotonic() + seconds
        return self._asked(
            lambda admin: admin.ask(request, seconds / 2),
            lambda error: isinstance(error, _NO_ANSWER_IN_TIME) and time.monotonic() < until,
        )

    def _asked(self, question: Callable[[PythonAdmin], T], again: Callable[[BaseException], bool]) -> T:
        with self._lock:
            try:
                return self._answered(question)
            except _NO_ANSWER as error:
                # The broker may be offline: retry once, with any broker.
                if not again(error):
                    raise self._failed(error) from error
            try:
                return self._answered(question)
            except _NO_ANSWER as error:
                raise self._failed(error) from error

    def _failed(self, error: BaseException) -> FailureError:
        return FailureError(cause(self.tokens, failure_of(error)))

    def _answered(self, question: Callable[[PythonAdmin], T]) -> T:
        if self._closed:
            raise FailureError(GIVEN_UP)
        if self.tokens is not None:
            self.tokens.token()  # here, because all connections of the client block while one waits for a token
        try:
            return question(self._admin or self._connected())
        except _NO_ANSWER:
            self._give_up()
            raise

    def _connected(self) -> PythonAdmin:
        properties = {"reconnect_backoff_max_ms": _MOST_BACKOFF_MS, **self._properties}
        self._admin = admin = PythonAdmin(**properties, bootstrap_timeout_ms=_BOOTSTRAP_MS)
        if self._closed:  # `close` does not wait for a connection attempt
            self._give_up()
            raise FailureError(GIVEN_UP)
        return admin


def _reassigned(adding: Iterable[int], removing: Iterable[int]) -> ReassignedReplicas:
    return ReassignedReplicas(frozenset(adding), frozenset(removing))


def failure_of(error: BaseException) -> Failure:
    """Return the Failure for an exception of kafka-python."""
    words = " ".join(str(error).split()) or type(error).__name__
    code = f"Kafka says {type(error).__name__.removesuffix('Error')}"
    if isinstance(error, AuthorizationError):
        return Failure(Reason.NOT_AUTHORIZED, f"{code}: {words}", Remedy.ACCESS)
    if isinstance(error, SaslAuthenticationFailedError):
        return refused_login(words)
    if isinstance(error, UnknownTopicOrPartitionError):
        return Failure(Reason.KAFKA_REFUSED, f"{code}: {words}", Remedy.RETRY)
    answered = getattr(error, "errno", None) and isinstance(error, BrokerResponseError) and not error.retriable
    reason = Reason.KAFKA_REFUSED if answered else Reason.KAFKA_UNREACHABLE
    return Failure(reason, f"{code}: {words}", Remedy.RETRY)
