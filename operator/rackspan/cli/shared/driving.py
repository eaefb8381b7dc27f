"""Passes one after the other until a plan is carried out, or somebody or something stops it."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from rackspan.cli.rendering.reassignment_progress import ReassignmentProgress
from rackspan.core.text import plural

if TYPE_CHECKING:
    from rackspan.reconcile.reassignments.executor import Executor, Pass

_NEWS_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 0.1, 0.3, 5.0
"""Between passes: as long as the last one took, so that half of the time is left to Kafka. Where it found something
changed, others are likely to end soon: small partitions are copied in less than a second."""
_CLEARING_SECONDS = 60.0


class Ended(Enum):
    """Why the passes ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    STUCK = "stuck"


async def drive(executor: "Executor", shown: ReassignmentProgress, patience: float) -> tuple[Ended, "Pass | None"]:
    """
    Carry the plan out until it is finished, a signal comes, or nothing has moved for `patience` seconds.

    At the first SIGINT no further copy begins, and those under way end under their throttle. At the second one, and at
    SIGTERM, they are left to Kafka. Then throttles are cleared. Raises StoppedError, and FailureError where Kafka stays
    away.
    """
    with _signals() as signals:
        ended, last = await _until_ended(executor.advance, _is_finished, shown, patience, signals.stop)
        if ended is Ended.INTERRUPTED and last is not None and last.copying and not signals.leave.is_set():
            shown.tell(
                "ending",
                f"{plural(last.copying, 'copy', 'copies')} under way end first, and no other begins; "
                "Ctrl-C again leaves them to Kafka, without a throttle",
            )
            await _until_ended(executor.wind_down, _copies_nothing, shown, patience, signals.leave)
    if ended is not Ended.FINISHED:
        last = await paused(executor, shown)
    return ended, last


async def take_back(executor: "Executor", shown: ReassignmentProgress, patience: float) -> tuple[Ended, "Pass | None"]:
    """Cancel what is under way; ends, and raises, as `drive` does. The pass tells what could not be taken back."""
    with _signals() as signals:
        ended, last = await _until_ended(executor.take_back, _is_finished, shown, patience, signals.stop)
    if ended is not Ended.FINISHED:
        cleared = await paused(executor, shown)
        last = last or cleared  # which tells what the plan would wait for
    return ended, last


def _is_finished(seen: "Pass") -> bool:
    return seen.finished


def _copies_nothing(seen: "Pass") -> bool:
    return not seen.copying


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
    one_pass: Callable[[], Awaitable["Pass"]],
    is_over: Callable[["Pass"], bool],
    shown: ReassignmentProgress,
    patience: float,
    stop: asyncio.Event,
) -> tuple[Ended, "Pass | None"]:
    from rackspan.reconcile.failures import FailureError  # noqa: PLC0415

    last, moved_at, moved, copying = None, time.monotonic(), -1, -1
    while not stop.is_set():
        started, least = time.monotonic(), _LEAST_SECONDS
        try:
            last = await one_pass()
        except FailureError as error:
            shown.tell("waiting", f"Kafka: {error.failure.message}")
            if time.monotonic() > moved_at + patience:
                raise
        else:
            shown.show(last)
            if is_over(last):
                return Ended.FINISHED, last
            if (last.progress.moved, last.copying) != (moved, copying):
                least = _NEWS_SECONDS
            copying = last.copying
            if last.copying or last.progress.moved != moved:
                moved_at, moved = time.monotonic(), last.progress.moved
            if time.monotonic() > moved_at + patience:
                return Ended.STUCK, last
        pause = min(max(time.monotonic() - started, least), _MOST_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
    return Ended.INTERRUPTED, last


@dataclass(frozen=True, slots=True)
class _Signals:
    """`stop` is set by the first SIGINT or SIGTERM, `leave` by SIGTERM and the second SIGINT."""

    stop: asyncio.Event
    leave: asyncio.Event


@contextlib.contextmanager
def _signals() -> Iterator[_Signals]:
    """Wait for signals; the third SIGINT ends the process as usual."""
    loop, signals = asyncio.get_running_loop(), _Signals(asyncio.Event(), asyncio.Event())

    def interrupted() -> None:
        if signals.stop.is_set():
            terminated()
        signals.stop.set()

    def terminated() -> None:
        signals.stop.set()
        signals.leave.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, interrupted)
    loop.add_signal_handler(signal.SIGTERM, terminated)
    try:
        yield signals
    finally:
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(one)
