"""Times in texts for people."""

from datetime import datetime

from rackspan.api.codec import timestamp


def utc_time(when: datetime) -> str:
    """Return a text such as `2026-11-25 20:40:21 UTC`: with the date, because the reader may come days later."""
    return f"{timestamp(when).removesuffix('Z').replace('T', ' ')} UTC"
