"""Runs passes one after the other until a plan is carried out or has to stop.

Throttles are cleared in every case: after all signals except SIGKILL, and if Kafka stays unreachable, the journal
cannot be written, the reader of the output disappears, or a defect occurs.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from rackspan.cli.rendering.reassignment_progress import ReassignmentProgress
from rackspan.core.text import plural
from rackspan.reconcile.failures import FailureError, Remedy
from rackspan.reconcile.plans.executor import Executor, Pass, StoppedError

_NEWS_SECONDS, _LEAST_SECONDS, _MOST_SECONDS = 0.1, 0.3, 5.0
"""Limits of the pause between passes, which is as long as the last pass, so that half of the time is left to Kafka.
After a pass with news the minimum is shorter, because small partitions are copied in less than a second."""
_CLEARING_SECONDS = 60.0


class Ended(Enum):
    """Why the passes ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    UNSEEN = "unseen"
    """Standard output has no reader any more, or cannot be written."""
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Signals:
    """`stop` is set by any signal and by lost output, `leave` by the second SIGINT and by all other signals."""

    stop: asyncio.Event
    leave: asyncio.Event


async def drive(
    executor: Executor, shown: ReassignmentProgress, patience: float, signals: Signals
) -> tuple[Ended, Pass | None]:
    """Carry the plan out until it is finished, a signal comes, or nothing has moved for `patience` seconds.

    After the first SIGINT, or if standard output is lost, no new copy begins, and the copies under way end under their
    throttle. After the second SIGINT, and after SIGTERM, SIGHUP and SIGQUIT, Kafka continues the copies alone. Then
    throttles are cleared.
    Raises StoppedError, and FailureError if Kafka is unavailable.
    """

    def is_over(seen: Pass) -> bool:
        return seen.finished or shown.lost is not None

    ended, last = await _until_ended(executor.advance, is_over, shown, patience, signals.stop)
    if ended is Ended.FINISHED and last is not None and not last.finished:
        ended = Ended.UNSEEN
        signals.stop.set()
    if signals.stop.is_set() and _may_copy(last, executor) and not signals.leave.is_set():
        copies = "copies" if last is None else plural(last.copying, "copy", "copies")
        shown.report(
            "ending",
            f"{copies} under way end first, and no other begins; Ctrl-C again leaves them to Kafka, without a throttle",
        )
        _, seen = await _until_ended(executor.wind_down, lambda seen: not seen.copying, shown, patience, signals.leave)
        last = seen if last is None else last if seen is None else replace(seen, waiting=last.waiting)
    if ended is not Ended.FINISHED:
        last = await _left(last, executor, shown)
    return ended, last


def _may_copy(last: Pass | None, executor: Executor) -> bool:
    """Return whether copies of this plan may be under way, by the last pass, else by an earlier command's record."""
    if last is None:
        return bool(executor.record.started or executor.record.throttles)
    return bool(last.copying)


async def take_back(
    executor: Executor, shown: ReassignmentProgress, patience: float, signals: Signals
) -> tuple[Ended, Pass | None]:
    """Cancel what is under way. Ends and raises as `drive` does. The pass has the moves that could not be cancelled."""
    ended, last = await _until_ended(executor.take_back, lambda seen: seen.finished, shown, patience, signals.stop)
    if ended is not Ended.FINISHED:
        last = await _left(last, executor, shown)
    return ended, last


async def _left(last: Pass | None, executor: Executor, shown: ReassignmentProgress) -> Pass | None:
    """Clear all throttles. Return that pass, with the waiting partitions and failures of the last pass."""
    cleared = await paused(executor, shown)
    if last is None or cleared is None:
        return cleared or last
    return replace(cleared, waiting=last.waiting, failures=(*last.failures, *cleared.failures))


async def paused(executor: Executor, shown: ReassignmentProgress) -> Pass | None:
    """Clear all throttles, with retries for a minute. Return None if Kafka does not respond or is another cluster."""
    deadline, seen = time.monotonic() + _CLEARING_SECONDS, None
    while True:
        problem = None
        try:
            seen = await executor.pause()
        except StoppedError:
            return None
        except FailureError as error:
            problem = error.failure
        refused = problem is not None and problem.remedy is Remedy.ACCESS
        if refused or not executor.record.throttles or time.monotonic() > deadline:
            return seen
        if problem is not None:
            shown.report("waiting", f"throttles cannot be cleared yet: {problem.message}")
        elif seen is not None and not seen.failures:
            return seen
        await asyncio.sleep(_LEAST_SECONDS)


async def _until_ended(
    one_pass: Callable[[], Awaitable[Pass]],
    is_over: Callable[[Pass], bool],
    shown: ReassignmentProgress,
    patience: float,
    stop: asyncio.Event,
) -> tuple[Ended, Pass | None]:
    last, moved_at, reached, news = None, time.monotonic(), None, None
    while not stop.is_set():
        started, least = time.monotonic(), _LEAST_SECONDS
        try:
            last = await one_pass()
        except FailureError as error:
            shown.report("waiting", f"Kafka: {error.failure.message}")
            if error.failure.remedy is Remedy.ACCESS or time.monotonic() > moved_at + patience:
                raise
        else:
            shown.show(last)
            if is_over(last):
                return Ended.FINISHED, last
            if (last.progress.moved, last.copying) != news:
                news, least = (last.progress.moved, last.copying), _NEWS_SECONDS
            if last.reached != reached:
                moved_at, reached = time.monotonic(), last.reached
            if time.monotonic() > moved_at + patience:
                return Ended.STUCK, last
        pause = min(max(time.monotonic() - started, least), _MOST_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
    return Ended.INTERRUPTED, last


@contextlib.contextmanager
def heard(shown: ReassignmentProgress) -> Iterator[Signals]:
    """Handle signals while the block runs, so that they do not end the process. SIGHUP stays ignored under `nohup`."""
    loop, signals = asyncio.get_running_loop(), Signals(asyncio.Event(), asyncio.Event())

    def interrupted() -> None:
        if signals.leave.is_set():
            shown.report("ending", "throttles are being cleared; only SIGKILL ends it before, and leaves them set")
        elif signals.stop.is_set():
            signals.leave.set()
        signals.stop.set()

    def terminated() -> None:
        signals.stop.set()
        signals.leave.set()

    handlers = {signal.SIGINT: interrupted, signal.SIGTERM: terminated, signal.SIGQUIT: terminated}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = terminated
    for one, handler in handlers.items():
        loop.add_signal_handler(one, handler)
    try:
        yield signals
    finally:
        for one in handlers:
            loop.remove_signal_handler(one)
