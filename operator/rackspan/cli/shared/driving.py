"""
Passes one after the other until a plan is carried out, or somebody or something stops it.

However that ends, throttles are cleared: by signals but SIGKILL, by Kafka that stays away, by a journal that cannot be
written, by a reader that goes away, by a defect.
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
"""Between passes: as long as the last one took, so that half of the time is left to Kafka. Where it found something
changed, others are likely to end soon: small partitions are copied in less than a second."""
_CLEARING_SECONDS = 60.0


class Ended(Enum):
    """Why the passes ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    UNSEEN = "unseen"
    """Nobody reads standard output any more, or it cannot be written."""
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Signals:
    """`stop` is set by the first signal, and where output is lost; `leave` by all others and the second SIGINT."""

    stop: asyncio.Event
    leave: asyncio.Event


async def drive(
    executor: Executor, shown: ReassignmentProgress, patience: float, signals: Signals
) -> tuple[Ended, Pass | None]:
    """
    Carry the plan out until it is finished, a signal comes, or nothing has moved for `patience` seconds.

    At the first SIGINT, and where standard output is lost, no further copy begins, and those under way end under their
    throttle. At the second SIGINT, and at SIGTERM, SIGHUP and SIGQUIT, they are left to Kafka. Then throttles are
    cleared.
    Raises StoppedError, and FailureError where Kafka is unavailable.
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
    """Whether copies of ours may be under way: as the last pass says, or what an earlier command has recorded."""
    if last is None:
        return bool(executor.record.started or executor.record.throttles)
    return bool(last.copying)


async def take_back(
    executor: Executor, shown: ReassignmentProgress, patience: float, signals: Signals
) -> tuple[Ended, Pass | None]:
    """Cancel what is under way; ends, and raises, as `drive` does. The pass says what could not be taken back."""
    ended, last = await _until_ended(executor.take_back, lambda seen: seen.finished, shown, patience, signals.stop)
    if ended is not Ended.FINISHED:
        last = await _left(last, executor, shown)
    return ended, last


async def _left(last: Pass | None, executor: Executor, shown: ReassignmentProgress) -> Pass | None:
    """Clear all throttles, and give what is left then, with what the last pass waited for and Kafka's answers to it."""
    cleared = await paused(executor, shown)
    if last is None or cleared is None:
        return cleared or last
    return replace(cleared, waiting=last.waiting, failures=(*last.failures, *cleared.failures))


async def paused(executor: Executor, shown: ReassignmentProgress) -> Pass | None:
    """Clear all throttles, trying for a minute if there are any; None where Kafka does not answer, or another one."""
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
    """Hear signals while the block runs, instead of being ended by them; not SIGHUP where `nohup` ignores it."""
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
