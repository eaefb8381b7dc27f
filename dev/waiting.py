"""Polling for a condition: the only way in which development code and tests wait."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    probe: Callable[[], T],
    what: str,
    *,
    timeout: float = 60,
    interval: float = 0.1,
    retry_on: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """Call `probe` until it returns something truthy, and return that.

    `timeout` and `interval` are seconds. An exception of a `retry_on` type counts as "not yet", any other one is the
    answer. Raises TimeoutError, which names `what` and the last thing seen.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            seen: object = (result := probe())
            if result:
                return result
        except retry_on as error:
            seen = error
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {timeout:g} s for {what}; last seen: {seen!r}")
        time.sleep(interval)
