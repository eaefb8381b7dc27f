"""librdkafka's error codes, sorted by who can mend them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, Remedy

_SPEC = {
    KafkaError.TOPIC_EXCEPTION: Reason.INVALID_TOPIC_NAME,
    KafkaError.INVALID_PARTITIONS: Reason.KAFKA_REFUSED,
    KafkaError.INVALID_REPLICA_ASSIGNMENT: Reason.KAFKA_REFUSED,
    KafkaError.INVALID_REPLICATION_FACTOR: Reason.KAFKA_REFUSED,
    KafkaError.INVALID_CONFIG: Reason.INVALID_CONFIG,
    KafkaError.INVALID_REQUEST: Reason.KAFKA_REFUSED,
    KafkaError.POLICY_VIOLATION: Reason.KAFKA_REFUSED,
    KafkaError._INVALID_ARG: Reason.KAFKA_REFUSED,  # noqa: SLF001 - librdkafka's local codes carry the underscore
}
_ACCESS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Reason.NOT_AUTHORIZED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: Reason.NOT_AUTHORIZED,
    KafkaError.SASL_AUTHENTICATION_FAILED: Reason.AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: Reason.AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION: Reason.AUTHENTICATION_FAILED,  # noqa: SLF001
    KafkaError._SSL: Reason.TLS_FAILED,  # noqa: SLF001
}
UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})
TELLS_THE_CAUSE = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE})  # noqa: SLF001
"""Codes of the error callback that say more than the time-out that follows them."""


def failure(error: KafkaError) -> Failure:
    """A Failure for one error code. What is not known to be final is worth another try."""
    code = error.code()
    message = f"Kafka says {error.name()}: {error.str()}"
    if code == KafkaError.TOPIC_ALREADY_EXISTS:  # made by an earlier attempt, or by somebody just now
        return Failure(Reason.CREATING, f"{message}; it is looked at again", Remedy.RETRY)
    if code in _SPEC:
        return Failure(_SPEC[code], message, Remedy.SPEC)
    if code in _ACCESS:
        return Failure(_ACCESS[code], message, Remedy.ACCESS)
    return Failure(Reason.KAFKA_UNREACHABLE, message, Remedy.RETRY)


def failure_of(exception: BaseException) -> Failure:
    """The Failure inside an exception of confluent-kafka."""
    if isinstance(exception, KafkaException) and exception.args and isinstance(exception.args[0], KafkaError):
        return failure(exception.args[0])
    return Failure(Reason.KAFKA_UNREACHABLE, f"{type(exception).__name__}: {exception}", Remedy.RETRY)


def is_unknown_topic(exception: BaseException) -> bool:
    """Whether Kafka says that there is no such topic."""
    error: Any = exception.args[0] if exception.args else None
    return isinstance(error, KafkaError) and error.code() in UNKNOWN_TOPIC
