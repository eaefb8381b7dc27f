"""Bytes and bytes per second as people write them, with the unit spelled out."""

import re

from rackspan.cli.shared.command_errors import CommandError

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


def bytes_of(option: str, text: str) -> int:
    """Read `10GiB`. Raises CommandError."""
    return _read(option, text, "", "10GiB")


def rate_of(option: str, text: str) -> int:
    """Read `50MB/s`: bytes per second, never bits. Raises CommandError."""
    return _read(option, text, "/s", "50MB/s")


def _read(option: str, text: str, per: str, example: str) -> int:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[3] not in _UNITS or (found[4] or "") != per:
        raise CommandError(
            f'{option} "{text}": write a number and its unit, such as {example}',
            f"units are {', '.join(f'{unit}{per}' for unit in _UNITS if unit != 'KB')}",
        )
    number = int(int(found[1] + (found[2] or "")) * _UNITS[found[3]] / 10 ** len(found[2] or ""))
    if not 1 <= number <= _MOST:
        raise CommandError(f'{option} "{text}": is no number of bytes from 1 to {_MOST:,}')
    return number
