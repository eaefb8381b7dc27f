"""Waiting for a condition, which is all that tests wait for."""

from collections.abc import Callable
from typing import Any

from dev.waiting import PATIENCE, eventually


def until(condition: Callable[[], Any], timeout: float = PATIENCE, what: str = "the condition to hold") -> Any:
    """Poll `condition` until it is truthy, and return that. Raises TimeoutError with the last thing seen."""
    return eventually(condition, what, timeout=timeout, interval=0.1)
