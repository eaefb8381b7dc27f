"""Keeps what goes wrong over one topic from failing the others of its batch."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from rackspan.reconcile.failures import UNEXPECTED, Failure, FailureError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rackspan.api.kafkatopic import KafkaTopic

R = TypeVar("R")
_log = logging.getLogger("rackspan.reconcile")


async def isolated(topic: KafkaTopic, act: Callable[[KafkaTopic], Awaitable[R]]) -> R | Failure:
    """The result of `act(topic)`, or the failure that it raised; an unexpected error is logged and made a failure."""
    try:
        return await act(topic)
    except FailureError as error:
        return error.failure
    except Exception:
        _log.exception("KafkaTopic %s: unexpected error", topic.key)
        return UNEXPECTED
