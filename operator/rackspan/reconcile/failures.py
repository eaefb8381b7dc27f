"""Failures as values: a condition's reason and message, and a remedy. One topic's failure affects no other topic."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.conditions import Conditions


class Remedy(StrEnum):
    """What has to happen before a retry makes sense."""

    SPEC = "spec"
    """The object is invalid: not retried until the object changes (condition `Stalled`)."""

    RETRY = "retry"
    """Kafka or the API server is unreachable or overloaded: retried with exponential backoff."""

    ACCESS = "access"
    """Not permitted: retried at long intervals until a permission is granted or a Secret is corrected."""


class KafkaSetting(StrEnum):
    """The fields of a RackTopology that can cause a failed connection. The command line has other names for them."""

    PROPERTIES = "spec.kafka.properties"
    TLS = "spec.kafka.tls"
    CA = "spec.kafka.tls.caSecretRef"
    CLIENT_CERTIFICATE = "spec.kafka.tls.clientCertSecretRef"
    TOKEN_ENDPOINT = "spec.kafka.sasl.oauth.tokenEndpoint"  # noqa: S105 - a field
    TOKEN_CA = "spec.kafka.sasl.oauth.caSecretRef"  # noqa: S105 - a field


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure as a value, so that one topic's failure does not abort its batch. `setting` is the cause."""

    reason: Reason
    what: str
    remedy: Remedy
    setting: KafkaSetting | None = None

    @property
    def message(self) -> str:
        """The description of the failure, prefixed with the name of the setting, if any."""
        return self.message_with({})

    def message_with(self, names: Mapping[KafkaSetting, str]) -> str:
        """Return the message with other names for settings."""
        return self.what if self.setting is None else f"{names.get(self.setting, self.setting)}: {self.what}"


UNEXPECTED = Failure(Reason.UNEXPECTED_ERROR, "unexpected error; the operator's log has more", Remedy.RETRY)
"""A bug in Rackspan or in a third-party placer."""
GIVEN_UP = Failure(Reason.KAFKA_UNREACHABLE, "the connection was given up", Remedy.RETRY)
"""The failure of calls to a closed Kafka client."""


_UNANSWERED = frozenset(
    (Reason.KAFKA_UNREACHABLE, Reason.KAFKA_CLIENT_FAILED, Reason.KAFKA_CLIENT_WAITING, Reason.UNEXPECTED_ERROR)
)


def is_answer(failure: Failure) -> bool:
    """Return whether Kafka refused the change. After other failures, Kafka may have made the change."""
    return failure.reason not in _UNANSWERED


class FailureError(Exception):
    """Raised if a `Failure` ends a whole call."""

    hint = ""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class DeniedError(FailureError):
    """Raised if some watched namespaces may not be read, after all others were read. `failure` is that of the first."""

    def __init__(self, failure: Failure, namespaces: frozenset[str]) -> None:
        super().__init__(failure)
        self.namespaces = namespaces


def invalid_spec(what: str, setting: KafkaSetting | None = None) -> FailureError:
    """Return the error of an object that cannot be used until its author corrects it."""
    return FailureError(Failure(Reason.INVALID_SPEC, what, Remedy.SPEC, setting))


def set_problem(conditions: Conditions, problem: Failure | None) -> None:
    """Set Stalled for a problem that a user has to solve, Reconciling for a retried one, and neither for None."""
    if problem is None:
        conditions.remove_abnormal()
    elif problem.remedy is Remedy.RETRY:
        conditions.set_reconciling(problem.reason, problem.message)
    else:
        conditions.set_stalled(problem.reason, problem.message)
