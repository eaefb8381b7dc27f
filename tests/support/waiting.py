"""Waiting for a condition, which is all that tests wait for."""

from collections.abc import Callable
from typing import Any

from dev.waiting import eventually


def until(condition: Callable[[], Any], what: str = "the condition to hold") -> Any:
    """Poll `condition` until it is truthy, and return that. Raises TimeoutError with the last thing seen."""
    return eventually(condition, what, interval=0.1)
