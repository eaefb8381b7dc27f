"""Failures from librdkafka's error codes, by what fixes them: the spec's author, an administrator, or a retry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, KafkaSetting, Remedy

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPEC = {
    KafkaError.TOPIC_EXCEPTION: Reason.INVALID_TOPIC_NAME,
    KafkaError.INVALID_PARTITIONS: Reason.KAFKA_REFUSED,
    KafkaError.INVALID_REPLICA_ASSIGNMENT: Reason.KAFKA_REFUSED,
    KafkaError.INVALID_REPLICATION_FACTOR: Reason.KAFKA_REFUSED,
    KafkaError.INVALID_CONFIG: Reason.INVALID_CONFIG,
    KafkaError.INVALID_REQUEST: Reason.KAFKA_REFUSED,
    KafkaError.POLICY_VIOLATION: Reason.KAFKA_REFUSED,
    KafkaError._INVALID_ARG: Reason.KAFKA_REFUSED,  # noqa: SLF001 - librdkafka's local codes have an underscore
}
_ACCESS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Reason.NOT_AUTHORIZED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: Reason.NOT_AUTHORIZED,
    KafkaError.SASL_AUTHENTICATION_FAILED: Reason.AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: Reason.AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION: Reason.AUTHENTICATION_FAILED,  # noqa: SLF001
    KafkaError._SSL: Reason.TLS_FAILED,  # noqa: SLF001
}
_AWAY = frozenset(
    {
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})
_TLS_WORDS = (
    (
        "certificate verify failed",
        "the brokers' certificate is not from this authority, or is for another host name",
        KafkaSetting.CA,
    ),
    (
        "SSL alert number",
        "the brokers want a client certificate that they trust",
        KafkaSetting.CLIENT_CERTIFICATE,
    ),
    ("PLAINTEXT broker listener", "the port does not speak TLS", None),
)
_HTTP_AS_SIZE = f"response size {int.from_bytes(b'HTTP')}"
"""A Kafka response begins with its size. This is the size that the first letters of an HTTP response encode."""
_CERTIFICATE = re.compile(r"(?<!enable\.)ssl\.(?:ca|certificate|crl|key|keystore)\.")
"""A property of librdkafka for a certificate or key. Other properties for TLS are in `spec.kafka.properties`."""
_WHERE_AND_WHEN = re.compile(r"^\S+/(?:bootstrap|\d+): |Connect to \S+ failed: |\s*\(after \d+ms in state .*\)$")
"""The text that differs between attempts. It is removed, so that the same error always has the same message."""


def failure(error: KafkaError) -> Failure:
    """Return the Failure for an error. If its code is not known to be final, the remedy is a retry."""
    code = error.code()
    local = code < 0
    message = f"{'the Kafka client' if local else 'Kafka'} says {error.name()}: {_WHERE_AND_WHEN.sub('', error.str())}"
    if code in _SPEC:
        return Failure(_SPEC[code], message, Remedy.SPEC)
    if code in _ACCESS:
        return Failure(_ACCESS[code], message, Remedy.ACCESS)
    reason = Reason.KAFKA_UNREACHABLE if local or code in _AWAY else Reason.KAFKA_REFUSED
    return Failure(reason, message, Remedy.RETRY)


def connection_failure(error: KafkaError) -> Failure | None:
    """Return the Failure for an error from librdkafka's callback, or None if it is no log-in, DNS or TLS error."""
    code, words = error.code(), _WHERE_AND_WHEN.sub("", error.str())
    if code == KafkaError._AUTHENTICATION:  # noqa: SLF001
        return refused_login(words)
    if code == KafkaError._RESOLVE:  # noqa: SLF001
        return Failure(Reason.KAFKA_UNREACHABLE, words, Remedy.RETRY)
    if code in (KafkaError._SSL, KafkaError._TRANSPORT) and "SSL" in words:  # noqa: SLF001
        known = ((sentence, setting) for sign, sentence, setting in _TLS_WORDS if sign in words)
        why, setting = next(known, (words, None))
        return Failure(Reason.TLS_FAILED, f"no TLS connection to Kafka: {why}", Remedy.ACCESS, setting)
    return None


def refused_login(words: str) -> Failure:
    """Return the Failure for a refused log-in. `words` is the broker's message, short for tokens (RFC 7628)."""
    if "invalid_token" in words:
        words = (
            "the token is invalid: the log of a broker says whether by its signature, issuer, audience, or by the time "
            "on the broker's clock"
        )
    return Failure(Reason.AUTHENTICATION_FAILED, f"Kafka refuses the log-in: {words}", Remedy.ACCESS)


def no_broker_reachable(servers: str, error: KafkaError) -> Failure:
    """Return the Failure if every connection failed. `error` is the latest connection error."""
    why = _WHERE_AND_WHEN.sub("", error.str())
    if _HTTP_AS_SIZE in why:
        why = "it answers in HTTP, so this is not a port of Kafka"
    return Failure(Reason.KAFKA_UNREACHABLE, f"no broker of {servers} can be reached: {why}", Remedy.RETRY)


def no_answer_in_time(servers: str, seconds: float, error: KafkaError | None) -> Failure:
    """Return the Failure if no broker responded within `seconds`. `error` is the latest connection error, if any."""
    if error is not None:
        return no_broker_reachable(servers, error)
    silent = "a listener with TLS or SASL does not answer a client without it"
    return Failure(
        Reason.KAFKA_UNREACHABLE, f"no broker of {servers} answered within {seconds:g} s: {silent}", Remedy.RETRY
    )


def settings_failure(error: BaseException) -> Failure:
    """Return the Failure if librdkafka refuses its settings: TLS files from Secrets, or `spec.kafka.properties`."""
    cause = error.args[0] if error.args else error
    words = cause.str() if isinstance(cause, KafkaError) else str(cause)
    words = words.removeprefix("Failed to create admin client: ")
    if _CERTIFICATE.search(words):
        what = f"a certificate or key cannot be used: {words}"
        return Failure(Reason.TLS_FAILED, what, Remedy.ACCESS, KafkaSetting.TLS)
    return Failure(Reason.INVALID_SPEC, words, Remedy.SPEC, KafkaSetting.PROPERTIES)


def failure_of(exception: BaseException) -> Failure:
    """Return the Failure for an exception of confluent-kafka."""
    if isinstance(exception, KafkaException) and exception.args and isinstance(exception.args[0], KafkaError):
        return failure(exception.args[0])
    what = f"the Kafka client cannot use an answer of this Kafka: {type(exception).__name__}: {exception}"
    return Failure(Reason.KAFKA_CLIENT_FAILED, what, Remedy.RETRY)


def failures_sentence(what: str, failed: Mapping[str, BaseException]) -> list[str]:
    """Return a list with one sentence, how many `what` there are and the first with its reason, or an empty list."""
    if not failed:
        return []
    name, error = next(iter(failed.items()))
    return [f"{what}: {len(failed)}, such as {name}: {failure_of(error).message}"]


def code_of(exception: BaseException | None) -> int | None:
    """Return the code of the Kafka error in an exception, or None. Codes of the client's own errors are negative."""
    error: Any = exception.args[0] if exception is not None and exception.args else None
    return error.code() if isinstance(error, KafkaError) else None


def is_unknown_topic(exception: BaseException) -> bool:
    """Return whether Kafka reports that the topic does not exist."""
    return code_of(exception) in UNKNOWN_TOPIC


def is_client_error(exception: BaseException | None) -> bool:
    """Return whether the error is the client's own, such as a timeout. No broker has responded then."""
    code = code_of(exception)
    return code is not None and code < 0
