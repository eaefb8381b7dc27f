"""The cost of copying replicas: bytes, duration, and texts about them."""

from math import ceil
from typing import TYPE_CHECKING

from rackspan.core.text import plural, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rackspan.core.planning import Change

_MINUTE, _HOUR = 60, 3600


def to_copy(number: int | None, throttle: int | None = None) -> str:
    """Return the bytes to copy and the time it takes: `6.9 MiB to copy, up to 4 min at 10.0 MiB/s and broker`."""
    return f"{size(number, 'an unknown number of bytes')} to copy{time_to_copy(number, throttle)}"


def ending(moves: int, number: int | None, throttle: int | None) -> str:
    """Return the cost of moves as the end of a sentence: `; 6.9 MiB to copy`. Empty without moves or a known size."""
    return f"; {to_copy(number, throttle)}" if moves and number is not None else ""


def time_to_copy(number: int | None, throttle: int | None) -> str:
    """Return, as the end of a sentence, the time that copying takes under a throttle in bytes per second and broker.

    This is an upper bound: one broker copies all bytes. Several brokers at the same time need less. Empty if unknown.
    """
    return f", {_at_most(number / throttle)} at {size(throttle)}/s and broker" if number and throttle else ""


def _at_most(seconds: float) -> str:
    if seconds < _MINUTE:
        return "under a minute"
    unit, name = (_MINUTE, "min") if seconds < 2 * _HOUR else (_HOUR, "h")
    return f"up to {ceil(seconds / unit):,} {name}"


def removed(replicas: int, number: int | None = None) -> str:
    """Return the number of removed replicas, and their bytes if known: `3 replicas removed (6.9 MiB)`."""
    return f"{plural(replicas, 'replica')} removed{f' ({size(number)})' if number else ''}"


def removing(replicas: int) -> str:
    """Return ` and removes 3 replicas`, to continue a sentence about what is copied. Empty if none is removed."""
    return f" and removes {plural(replicas, 'replica')}" if replicas else ""


def bytes_to_copy(changes: "Iterable[Change]") -> int | None:
    """Return the bytes that the changes copy; None if the size of any copied partition is not known."""
    return _bytes((change.copied, change.size_bytes) for change in changes if change.copied)


def bytes_to_remove(changes: "Iterable[Change]") -> int | None:
    """Return the bytes of the replicas that the changes remove; None if the size of any of them is not known."""
    return _bytes((change.removed, change.size_bytes) for change in changes if change.removed)


def _bytes(found: "Iterable[tuple[int, int | None]]") -> int | None:
    every = list(found)
    known = [replicas * size_bytes for replicas, size_bytes in every if size_bytes is not None]
    return sum(known) if len(known) == len(every) else None
