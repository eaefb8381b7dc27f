"""Waiting for a condition. Tests wait in no other way."""

from collections.abc import Callable
from typing import Any

from dev.waiting import eventually


def until(condition: Callable[[], Any], what: str = "the condition to hold") -> Any:
    """Poll `condition` until it is truthy, and return its value. Raise TimeoutError with the last value."""
    return eventually(condition, what, interval=0.1)
