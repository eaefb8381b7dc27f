"""Polling for a condition: the only way in which development code and tests wait."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_REST = 3
"""Seconds without asking for each second of asking: waiting takes a quarter of a processor at most."""
_LONGEST_REST = 2.0
_LONGEST_LOOK = 10.0
PATIENCE = 300.0
"""Seconds to wait where nobody says how long: a busy machine may take several times as long as an idle one."""


def eventually(
    probe: Callable[[], T],
    what: str,
    *,
    timeout: float = PATIENCE,
    interval: float = 0.1,
    retry_on: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """Call `probe` until it returns something truthy, and return that.

    `timeout` and `interval` are seconds; a probe that takes long is asked less often, because asking takes from those
    that are waited for. Time in which this process gets no CPU does not count: those that are waited for get none
    either.
    An exception of a `retry_on` type counts as "not yet", any other one is the answer. Raises
    TimeoutError, which names `what` and the last thing seen.
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
