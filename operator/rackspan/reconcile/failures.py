"""What went wrong, in the words of a condition, and what would mend it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rackspan.api.reasons import Reason


class Remedy(StrEnum):
    """Who has to move before another attempt makes sense."""

    SPEC = "spec"
    """The object is wrong: nothing is retried until it changes (`Stalled`)."""

    RETRY = "retry"
    """Kafka or the API server is out of reach or busy: again, with back-off."""

    ACCESS = "access"
    """Not allowed: somebody has to grant a right or mend a Secret; retried slowly."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure as a value, so that one topic's never becomes its batch's."""

    reason: Reason
    message: str
    remedy: Remedy


UNEXPECTED = Failure(Reason.UNEXPECTED_ERROR, "unexpected error; the operator's log has more", Remedy.RETRY)
"""A defect of Rackspan, or of what is plugged into it."""


class FailureError(Exception):
    """A `Failure` that ends a whole call."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
