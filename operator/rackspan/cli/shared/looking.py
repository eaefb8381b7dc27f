"""Looks at something again and again until it is as it shall be."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
_LEAST_SECONDS, _MOST_SECONDS = 1.0, 10.0
"""Between two looks: as long as the last one took, so that whoever is asked has half of the time to itself."""


async def until(look: Callable[[], Awaitable[T]], over: Callable[[T], bool], seconds: float | None) -> T:
    """The first look that is over, or the last one after `seconds`."""
    clock = asyncio.get_running_loop().time
    started = clock()
    while True:
        before = clock()
        seen = await look()
        if over(seen) or (seconds is not None and clock() >= started + seconds):
            return seen
        await asyncio.sleep(min(max(clock() - before, _LEAST_SECONDS), _MOST_SECONDS))
