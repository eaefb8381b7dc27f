"""Parsers for bytes, bytes per second, throttles, times, shares and counts by rack as people write them."""

import re
from collections.abc import Sequence

from rackspan.cli.shared.command_errors import CommandError
from rackspan.core.durations import seconds_in
from rackspan.core.reassignment import Adaptive

_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_QUANTITY = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,3}))? ?([A-Za-z]*)(/s)?", re.ASCII)
_MOST = 2**63 - 1
_ADAPTIVE = "adaptive"
_MOST_RACKS, _MOST_PRODUCERS = 100, 10**6
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)(%?)", re.ASCII)


def bytes_of(option: str, text: str) -> int:
    """Read `10GiB`. Raises CommandError."""
    return _read(option, text, "", "10GiB")


def rate_of(option: str, text: str) -> int:
    """Read `50MB/s`: bytes per second, never bits. Raises CommandError."""
    return _read(option, text, "/s", "50MB/s")


def throttle_of(option: str, text: str) -> int | Adaptive:
    """Read `50MB/s`, `adaptive`, or `adaptive:10MB/s-100MB/s`. Raises CommandError."""
    word, colon, bounds = text.strip().partition(":")
    if word != _ADAPTIVE:
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


def seconds_of(option: str, text: str) -> float:
    """Read `90`, `10s`, `15m` or `1h30m` as seconds, at least one. Raises CommandError."""
    total = seconds_in(text.strip())
    if total is None or total < 1:
        raise CommandError(f'{option} "{text}": write a time of a second or more, such as 90, 10s or 1h30m')
    return total


def share_of(option: str, text: str) -> float:
    """Read `0.1` or `10%` as a share from 0 to 1. Raises CommandError."""
    found = _SHARE.fullmatch(text.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= share <= 1:
        raise CommandError(f'{option} "{text}": write a share from 0 to 1, such as 0.1 or 10%')
    return share


def producers_of(texts: Sequence[str]) -> dict[str, int]:
    """Read `/eu/eu-1a` and `/eu/eu-1b=3`: how many producers have each `client.rack`. Raises CommandError."""
    found: dict[str, int] = {}
    for text in texts:
        rack, equals, count = text.rpartition("=")
        if not equals:
            rack, count = text, "1"
        if not rack or not re.fullmatch("[0-9]{1,7}", count) or not 0 < int(count) <= _MOST_PRODUCERS:
            raise CommandError(
                f'--producers "{text}": write a client.rack, and how many producers have it, such as /eu/eu-1a=3'
            )
        found[rack] = found.get(rack, 0) + int(count)
    if len(found) > _MOST_RACKS:
        raise CommandError(f"--producers names {len(found):,} racks, more than {_MOST_RACKS}")
    return found


def _read(option: str, text: str, per: str, example: str) -> int:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[3] not in _UNITS or (found[4] or "") != per:
        raise CommandError(
            f'{option} "{text}": write a number and its unit, such as {example}',
            f"units are {', '.join(f'{unit}{per}' for unit in _UNITS if unit != 'KB')}",
        )
    number = int(int(found[1] + (found[2] or "")) * _UNITS[found[3]] / 10 ** len(found[2] or ""))
    if not 1 <= number <= _MOST:
        raise CommandError(f'{option} "{text}": is not a number of bytes from 1 to {_MOST:,}')
    return number
