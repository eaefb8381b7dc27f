"""Runs computations in threads, so that they do not block the event loop.

Rackspan's computations are bounded and share small pools. They do not use asyncio's default executor, which resolves
host names. Third-party placers are not bounded, and a thread cannot be killed. So each call gets its own thread, which
is abandoned ("left behind") after a timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from rackspan.metrics import PLACERS_LEFT_BEHIND

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")
Ts = TypeVarTuple("Ts")
_log = logging.getLogger("rackspan.reconcile")

PLACER_SECONDS = 10.0
"""How long a third-party placer may take for one topic."""
_POOL = ThreadPoolExecutor(4, "thinking")
_PLANNER_POOL = ThreadPoolExecutor(8, "planning")
"""A separate pool for plans, because one plan covers a whole batch and may take long."""


async def in_thread(work: Callable[[*Ts], R], *args: *Ts) -> R:
    """Run `work` in a small pool that all topologies share, in order of submission, and return the result."""
    return await asyncio.get_running_loop().run_in_executor(_POOL, work, *args)


async def in_planner_thread(work: Callable[[*Ts], R], *args: *Ts) -> R:
    """Run `work` in the pool for plans, and return the result."""
    return await asyncio.get_running_loop().run_in_executor(_PLANNER_POOL, work, *args)


class PlacerTimedOutError(Exception):
    """A call of the placer took longer than PLACER_SECONDS: this call, or an earlier call that still runs."""


class ThirdPartyPlacers:
    """Calls third-party placers by name, each placer one call at a time. One instance for the whole operator."""

    def __init__(self) -> None:
        self._left_behind: set[str] = set()
        """Names of placers with a call that timed out and has not ended."""
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def call(self, placer: str, work: Callable[[], R]) -> R:
        """Run `work` in its own thread and return the result. Raises PlacerTimedOutError, and what `work` raises."""
        lock = self._locks[placer]
        if placer in self._left_behind:
            raise PlacerTimedOutError
        try:
            async with asyncio.timeout(PLACER_SECONDS):
                await lock.acquire()
        except TimeoutError as error:
            raise PlacerTimedOutError from error
        try:
            if placer in self._left_behind:
                raise PlacerTimedOutError
            return await self._call(placer, work)
        finally:
            lock.release()

    async def _call(self, placer: str, work: Callable[[], R]) -> R:
        answer: Future[R] = Future()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_run, args=(answer, work), name=f"placer-{placer}", daemon=True).start()
        waiting = asyncio.wrap_future(answer)
        waiting.add_done_callback(_take_note)
        try:
            done, _ = await asyncio.wait({waiting}, timeout=PLACER_SECONDS)
        except asyncio.CancelledError:
            self._leave_behind(placer, answer, loop)
            raise
        for ended in done:
            return ended.result()
        _log.error("the placer %r takes longer than %g seconds: its call is left behind", placer, PLACER_SECONDS)
        self._leave_behind(placer, answer, loop)
        raise PlacerTimedOutError

    def _leave_behind(self, placer: str, answer: Future[R], loop: asyncio.AbstractEventLoop) -> None:
        self._left_behind.add(placer)
        self._update_metric()
        answer.add_done_callback(lambda _: self._on_ended(placer, loop))

    def _on_ended(self, placer: str, loop: asyncio.AbstractEventLoop) -> None:
        """Allow the placer again after an abandoned call has ended. Runs in the call's thread."""
        with contextlib.suppress(RuntimeError):  # the event loop is closed: the operator is stopping
            loop.call_soon_threadsafe(self._allow_again, placer)

    def _allow_again(self, placer: str) -> None:
        self._left_behind.discard(placer)
        self._update_metric()
        _log.info("the placer %r has ended a call that was left behind", placer)

    def _update_metric(self) -> None:
        PLACERS_LEFT_BEHIND.set(len(self._left_behind))


def _take_note(ended: asyncio.Future[R]) -> None:
    """Retrieve the error of a call that nobody awaits any more, which asyncio would log as a defect."""
    if not ended.cancelled():
        ended.exception()


def _run(answer: Future[R], work: Callable[[], R]) -> None:
    """Run `work` and set the result or the error in every case. Third-party code may raise SystemExit, too."""
    try:
        result = work()
    except BaseException as error:
        answer.set_exception(error if isinstance(error, Exception) else RuntimeError(f"it ended with {error!r}"))
    else:
        answer.set_result(result)
