"""kafka-python's client beside librdkafka's, with the same properties: it has calls that librdkafka does not have."""

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
from rackspan.core.partitions import TopicPartition
from rackspan.kafka.kafka_errors import refused_login
from rackspan.kafka.oauth_login import without_login
from rackspan.kafka.python_admin import PythonAdmin
from rackspan.kafka.python_client_config import UnsupportedPropertyError, python_client_properties
from rackspan.kafka.token_provider import cause, token_provider
from rackspan.reconcile.failures import GIVEN_UP, Failure, FailureError, KafkaSetting, Remedy, invalid_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rackspan.kafka.token_provider import TokenProvider

T = TypeVar("T")
_BOOTSTRAP_MS = 12_000
_MOST_BACKOFF_MS = 1_000
"""A broker that is back is asked again so soon."""
_LIST_SECONDS = 5.0
_ELIGIBLE_SECONDS = 10.0
_PAGE = 2_000
"""Partitions of an answer: brokers give no more, whatever is asked (`max.request.partition.size.limit`)."""
_NO_ANSWER = (PythonKafkaError, OSError, RuntimeError)
_NO_ANSWER_IN_TIME = (KafkaTimeoutError, RequestTimedOutError)
_log = logging.getLogger("kafka")
_log.addHandler(logging.NullHandler())
_log.propagate = False  # what matters of it comes back from calls


class _Tokens(AbstractTokenProvider):  # type: ignore[misc, unused-ignore]
    """The tokens as kafka-python asks for them: for each connection, and before the broker ends a session (KIP-368)."""

    def __init__(self, tokens: TokenProvider) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        """The present token. Raises an error of the library's own kind, so that only this connection ends."""
        try:
            return self._tokens.token()
        except FailureError as error:
            raise SaslAuthenticationFailedError(str(error)) from error


class PythonConnection:
    """One cluster. Connects when it is first asked, and anew after a failure. Calls block, one at a time."""

    def __init__(self, properties: Mapping[str, str | int | bool], tokens: TokenProvider | None = None) -> None:
        """Raise FailureError where kafka-python has no counterpart of `properties`, which are librdkafka's."""
        self.tokens = tokens or token_provider(properties)
        """What the client logs in with; None where it does so without tokens."""
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
        """Whether the last call, if there was one, was answered."""
        return self._admin is not None

    def ask(self, question: Callable[[PythonAdmin], T]) -> T:
        """Ask twice at most. A client that failed is given up: it can go on asking a broker that is gone."""
        return self._asked(question, lambda error: not isinstance(error, BrokerResponseError) or error.retriable)

    def adding(self) -> Mapping[TopicPartition, frozenset[int]]:
        """The brokers that are being added to each partition under way (KIP-455). Asks for a limited time."""
        request = ListPartitionReassignmentsRequest(timeout_ms=int(_LIST_SECONDS * 1000), topics=None)
        answer = self._asked_within(request, _LIST_SECONDS)
        if answer.error_code == NotControllerError.errno:  # with ZooKeeper: a broker does not pass it on
            listed = self.ask(lambda admin: admin.list_partition_reassignments())
            return {TopicPartition(*at): frozenset(lists["adding_replicas"]) for at, lists in listed.items()}
        if answer.error_code:
            raise FailureError(failure_of(for_code(answer.error_code)(answer.error_message or "")))
        return {
            TopicPartition(topic.name, one.partition_index): frozenset(one.adding_replicas)
            for topic in answer.topics
            for one in topic.partitions
        }

    def eligible(self, topics: Sequence[str]) -> Mapping[TopicPartition, frozenset[int]]:
        """The eligible leader replicas of partitions of these topics (KIP-966), as far as Kafka gives them in time.

        Partitions without any are left out. Raises FailureError, also where brokers are older than Kafka 3.7.
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
        """Close connections, in a thread of its own. What is being asked fails, and nothing is asked any more."""
        self._closed = True
        self._give_up()

    def _give_up(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            threading.Thread(target=admin.close, name="kafka-python-close", daemon=True).start()

    def _asked_within(self, request: Any, seconds: float) -> Any:
        """The answer of whichever broker there is: one that hangs leaves half of the time to another."""
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
                # The broker that was asked may be gone: once more, by whichever there is.
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
            self.tokens.token()  # here, as all the client's connections stand still while one waits for a token
        try:
            return question(self._admin or self._connected())
        except _NO_ANSWER:
            self._give_up()
            raise

    def _connected(self) -> PythonAdmin:
        properties = {"reconnect_backoff_max_ms": _MOST_BACKOFF_MS, **self._properties}
        self._admin = admin = PythonAdmin(**properties, bootstrap_timeout_ms=_BOOTSTRAP_MS)
        if self._closed:  # meanwhile: `close` does not wait
            self._give_up()
            raise FailureError(GIVEN_UP)
        return admin


def failure_of(error: BaseException) -> Failure:
    """The Failure that an exception of kafka-python means."""
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
