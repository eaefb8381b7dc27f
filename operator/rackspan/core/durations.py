"""Times as people write them."""

import re
from typing import Final

_SECONDS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?", re.ASCII)
_UNITS: Final = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?", re.ASCII)


def seconds_in(text: str) -> float | None:
    """Return the seconds of `90`, `10s`, `15m` or `1h30m`, None for any other text."""
    if _SECONDS.fullmatch(text):
        return float(text) if "." in text else int(text)
    found = _UNITS.fullmatch(text)
    if not text or found is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds
