"""A control loop over all objects of a kind: no pass ends the loop, and no object the pass."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from rackspan import metrics
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.waiting import wait_debounced

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.runtime.waiting import Liveness

_RETRY_SECONDS = 15.0


async def run_guarded(
    name: str, reconcile: Callable[[], Awaitable[float]], wake: asyncio.Event, debounce: float, liveness: Liveness
) -> None:
    """Loop until cancelled: a pass, which gives the seconds until the next one; earlier if `wake` is set.

    After `wake`, `debounce` seconds gather a burst. A pass that fails is counted, logged under the loop's `name` and
    made again in 15 seconds.
    """
    log = logging.getLogger(f"rackspan.{name}")
    while True:
        await wait_debounced(wake, await _guarded(name, reconcile, log, liveness), debounce)


async def _guarded(
    name: str, reconcile: Callable[[], Awaitable[float]], log: logging.Logger, liveness: Liveness
) -> float:
    try:
        with liveness.track(name):
            return await reconcile()
    except FailureError as error:
        metrics.count_error("", error.failure.remedy, error.failure.reason)
        log.warning("%s: %s", name, error)
    except Exception:
        metrics.count_error("", Remedy.RETRY, Reason.UNEXPECTED_ERROR)
        log.exception("%s: unexpected error", name)
    return _RETRY_SECONDS


def unexpected_failure(name: str, topology: ObjectKey, error: Exception) -> Failure:
    """One topology's failure from an error that nobody foresaw in the loop `name`: counted and logged."""
    metrics.count_error(str(topology), Remedy.RETRY, Reason.UNEXPECTED_ERROR)
    logging.getLogger(f"rackspan.{name}").error("topology %s: unexpected error", topology, exc_info=error)
    return Failure(Reason.UNEXPECTED_ERROR, f"{type(error).__name__}, see the operator's log", Remedy.RETRY)
