"""Throttles as people write them: a rate, or bounds within which it adapts itself."""

from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.quantities import rate_of
from rackspan.core.reassignment import Adaptive

_WORD = "adaptive"


def throttle_of(option: str, text: str) -> int | Adaptive:
    """Read `50MB/s`, `adaptive`, or `adaptive:10MB/s-100MB/s`. Raises CommandError."""
    word, colon, bounds = text.strip().partition(":")
    if word != _WORD:
        return rate_of(option, text)
    if not colon:
        return Adaptive()
    floor, dash, ceiling = bounds.partition("-")
    if not dash:
        raise CommandError(f'{option} "{text}": write a floor and a ceiling, such as adaptive:10MB/s-100MB/s')
    try:
        return Adaptive(rate_of(option, floor), rate_of(option, ceiling))
    except ValueError:
        raise CommandError(f'{option} "{text}": the floor is above the ceiling') from None
