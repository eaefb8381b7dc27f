"""Polling for a condition. Development code and tests wait in no other way."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_REST = 3
"""Seconds of pause per second of probing, so that waiting takes at most a quarter of a CPU."""
_LONGEST_REST = 2.0
_LONGEST_LOOK = 10.0
PATIENCE = 300.0
"""The default timeout in seconds. A busy machine may take several times as long as an idle one."""


def eventually(
    probe: Callable[[], T],
    what: str,
    *,
    timeout: float = PATIENCE,
    interval: float = 0.1,
    retry_on: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """Call `probe` until it returns a truthy value, and return this value.

    `timeout` and `interval` are seconds. A slow probe is called less often, because it takes CPU from the processes
    that the caller waits for. Time without CPU for this process does not count, because the others get none either.
    An exception of a `retry_on` type means "not yet". Other exceptions are raised. Raises TimeoutError, with `what` and
    the last result.
    """
    left = timeout
    while True:
        asked = time.monotonic()
        try:
            seen: object = (result := probe())
            if result:
                return result
        except retry_on as error:
            seen = error
        took = time.monotonic() - asked
        left -= min(took, _LONGEST_LOOK)
        if left <= 0:
            raise TimeoutError(f"waited {timeout:g} s for {what}; last seen: {seen!r}")
        rest = min(max(interval, _REST * took), _LONGEST_REST)
        left -= rest
        time.sleep(rest)
