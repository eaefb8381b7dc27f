"""Failures as values: a condition's reason and message, and how to recover."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rackspan.api.reasons import Reason


class Remedy(StrEnum):
    """What has to happen before a retry makes sense."""

    SPEC = "spec"
    """The object is invalid: not retried until it changes (condition `Stalled`)."""

    RETRY = "retry"
    """Kafka or the API server is unreachable or overloaded: retried with exponential back-off."""

    ACCESS = "access"
    """Not permitted: a right has to be granted or a Secret corrected; retried at long intervals."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure as a value, so that one topic's failure does not abort its batch."""

    reason: Reason
    message: str
    remedy: Remedy


UNEXPECTED = Failure(Reason.UNEXPECTED_ERROR, "unexpected error; the operator's log has more", Remedy.RETRY)
"""A bug in Rackspan or in a third-party placer."""


class FailureError(Exception):
    """Raised where a `Failure` ends a whole call."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
