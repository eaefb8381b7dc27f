"""Waiting for a condition. Tests wait in no other way."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException
from dev.waiting import eventually

from rackspan.reconcile.failures import FailureError


def until(condition: Callable[[], Any], what: str = "the condition to hold") -> Any:
    """Poll `condition` until it is truthy, and return its value. Raise TimeoutError with the last value.

    KafkaException and FailureError mean "not yet": a broker that is busy or has just started may not answer in time.
    """
    return eventually(condition, what, interval=0.1, retry_on=(KafkaException, FailureError))
