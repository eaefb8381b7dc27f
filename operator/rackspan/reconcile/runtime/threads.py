"""Where computing is done: in threads of its own, so that the event loop keeps turning.

Never in asyncio's default executor, in which names of hosts are resolved. What Rackspan computes is bounded by a budget
and shares a few threads. A placer that somebody else wrote is bounded by nothing: each call gets a thread that is left
behind when its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from rackspan.metrics import PLACERS_LEFT_BEHIND

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

R = TypeVar("R")
_log = logging.getLogger("rackspan.reconcile")

PLACER_SECONDS = 10.0
"""How long a placer that is not built in may take over one topic."""
_POOL = ThreadPoolExecutor(4, "thinking")
_PLANNERS = ThreadPoolExecutor(8, "planning")
"""Apart, because one plan covers a whole batch and may take long."""


async def in_thread(work: Callable[[], R]) -> R:
    """What `work` gives, computed in one of a few threads that all topologies share, first come, first served."""
    return await asyncio.get_running_loop().run_in_executor(_POOL, work)


async def plan(work: Callable[[], R]) -> R:
    """The same for plans."""
    return await asyncio.get_running_loop().run_in_executor(_PLANNERS, work)


class PlacerTimedOutError(Exception):
    """A call of the placer took too long, this one or one before that has still not ended."""


class ThirdPartyPlacers:
    """Calls of placers that are not built in, one at a time of each, by its name. One for the whole operator."""

    def __init__(self) -> None:
        self._left_behind: set[str] = set()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def left_behind(self) -> Collection[str]:
        """Placers with a call whose time is over and that has not ended."""
        return frozenset(self._left_behind)

    async def call(self, placer: str, work: Callable[[], R]) -> R:
        """What `work` gives, from a thread of its own.

        Raises PlacerTimedOutError: it took too long, or an earlier call of this placer did and has still not ended.
        """
        turn = self._turns[placer]
        if placer in self._left_behind:
            raise PlacerTimedOutError
        try:
            async with asyncio.timeout(PLACER_SECONDS):
                await turn.acquire()
        except TimeoutError as error:
            raise PlacerTimedOutError from error
        try:
            if placer in self._left_behind:
                raise PlacerTimedOutError
            return await self._call(placer, work)
        finally:
            turn.release()

    async def _call(self, placer: str, work: Callable[[], R]) -> R:
        answer: Future[R] = Future()
        loop = asyncio.get_running_loop()
        threading.Thread(target=_run, args=(answer, work), name=f"placer-{placer}", daemon=True).start()
        try:
            done, _ = await asyncio.wait({asyncio.wrap_future(answer)}, timeout=PLACER_SECONDS)
        except asyncio.CancelledError:
            self._leave(placer, answer, loop)
            raise
        for ended in done:
            return ended.result()
        _log.error("the placer %r takes longer than %g seconds: its call is left behind", placer, PLACER_SECONDS)
        self._leave(placer, answer, loop)
        raise PlacerTimedOutError

    def _leave(self, placer: str, answer: Future[R], loop: asyncio.AbstractEventLoop) -> None:
        self._left_behind.add(placer)
        self._measure()
        answer.add_done_callback(lambda _: self._back(placer, loop))

    def _back(self, placer: str, loop: asyncio.AbstractEventLoop) -> None:
        """A call that was left behind has ended; told from its thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody is interested
            loop.call_soon_threadsafe(self._forgive, placer)

    def _forgive(self, placer: str) -> None:
        self._left_behind.discard(placer)
        self._measure()
        _log.info("the placer %r has ended a call that was left behind", placer)

    def _measure(self) -> None:
        PLACERS_LEFT_BEHIND.set(len(self._left_behind))


def _run(answer: Future[R], work: Callable[[], R]) -> None:
    """Whatever happens, the call ends with an answer: code of others may raise SystemExit."""
    try:
        result = work()
    except BaseException as error:
        answer.set_exception(error if isinstance(error, Exception) else RuntimeError(f"it ended with {error!r}"))
    else:
        answer.set_result(result)
