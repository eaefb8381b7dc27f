"""Polls until a condition is met."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
_LEAST_SECONDS, _MOST_SECONDS = 1.0, 10.0
"""Limits of the pause between looks. A pause is as long as the last look, which leaves half of the time to others."""


async def until(look: Callable[[], Awaitable[T]], over: Callable[[T], bool], seconds: float | None) -> T:
    """Return the first result of `look` that satisfies `over`, or the last result after `seconds`."""
    clock = asyncio.get_running_loop().time
    started = clock()
    while True:
        before = clock()
        seen = await look()
        if over(seen) or (seconds is not None and clock() >= started + seconds):
            return seen
        await asyncio.sleep(min(max(clock() - before, _LEAST_SECONDS), _MOST_SECONDS))
