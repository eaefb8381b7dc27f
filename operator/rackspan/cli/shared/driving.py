"""Passes one after the other until a plan is carried out, or somebody or something stops it."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from rackspan.cli.rendering.reassignment_progress import ReassignmentProgress

if TYPE_CHECKING:
    from rackspan.reconcile.reassignments.executor import Executor, Pass

_LEAST_SECONDS, _MOST_SECONDS = 0.3, 5.0
"""Between passes: as long as the last one took, so that half of the time is left to Kafka."""
_CLEARING_SECONDS = 60.0


class Ended(Enum):
    """Why the passes ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    STUCK = "stuck"


async def drive(
    executor: "Executor",
    one_pass: Callable[[], Awaitable["Pass"]],
    shown: ReassignmentProgress,
    patience: float,
) -> tuple[Ended, "Pass | None"]:
    """
    Make passes until one is finished, a signal comes, or nothing has moved for `patience` seconds.

    In the last two cases throttles are cleared. Raises StoppedError, and FailureError where Kafka stays away.
    """
    with _interrupted() as stop:
        ended, last = await _until_ended(one_pass, shown, patience, stop)
    if ended is not Ended.FINISHED:
        last = await paused(executor, shown)
    return ended, last


async def paused(executor: "Executor", shown: ReassignmentProgress) -> "Pass | None":
    """Clear all throttles, trying again for a minute; None where Kafka does not answer."""
    from rackspan.reconcile.failures import FailureError  # noqa: PLC0415

    deadline, seen = time.monotonic() + _CLEARING_SECONDS, None
    while time.monotonic() < deadline:
        try:
            seen = await executor.pause()
        except FailureError as error:
            shown.tell("waiting", f"throttles cannot be cleared yet: {error.failure.message}")
        else:
            if not seen.failures:
                return seen
        await asyncio.sleep(_LEAST_SECONDS)
    return seen


async def _until_ended(
    one_pass: Callable[[], Awaitable["Pass"]], shown: ReassignmentProgress, patience: float, stop: asyncio.Event
) -> tuple[Ended, "Pass | None"]:
    from rackspan.reconcile.failures import FailureError  # noqa: PLC0415

    last, moved_at, moved = None, time.monotonic(), -1
    while not stop.is_set():
        started = time.monotonic()
        try:
            last = await one_pass()
        except FailureError as error:
            shown.tell("waiting", f"Kafka: {error.failure.message}")
            if time.monotonic() > moved_at + patience:
                raise
        else:
            shown.show(last)
            if last.finished:
                return Ended.FINISHED, last
            if last.copying or last.progress.moved != moved:
                moved_at, moved = time.monotonic(), last.progress.moved
            if time.monotonic() > moved_at + patience:
                return Ended.STUCK, last
        pause = min(max(time.monotonic() - started, _LEAST_SECONDS), _MOST_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
    return Ended.INTERRUPTED, last


@contextlib.contextmanager
def _interrupted() -> Iterator[asyncio.Event]:
    """Give an event that the first SIGINT or SIGTERM sets; the second SIGINT ends the process as usual."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def told() -> None:
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, told)
    try:
        yield stop
    finally:
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(one)
