"""The formats of shares and times on a page. Times are UTC. A text that is not a time stays unchanged."""

from datetime import datetime

from rackspan.core.text import plural

_MINUTES_PER_HOUR, _HOURS_PER_DAY = 60, 24


def share(part: float, whole: float) -> str:
    """Return a percentage, rounded so that only the whole is 100 % and only zero is 0 %."""
    if whole <= 0:
        return "\N{EN DASH}"
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "<1 %"
    digits = 1 if 99 < percent < 100 else 0  # noqa: PLR2004 - here the last percent matters
    return f"{min(percent, 99.9) if part < whole else percent:.{digits}f} %"


def duration(minutes: float) -> str:
    """Return minutes in the two largest units: `3 d 4 h`, `12 min`."""
    whole = round(minutes)
    days, rest = divmod(whole, _MINUTES_PER_HOUR * _HOURS_PER_DAY)
    hours, left = divmod(rest, _MINUTES_PER_HOUR)
    parts = [f"{number:,} {unit}" for number, unit in ((days, "d"), (hours, "h"), (left, "min")) if number]
    return " ".join(parts[:2]) or ("0 min" if minutes <= 0 else "<1 min")


def time(text: str | None) -> datetime | None:
    """Read an RFC 3339 time. Return None for an invalid one."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def moment(text: str) -> str:
    """Return a text such as `21 Nov 2026, 12:35 UTC`."""
    at = time(text)
    return f"{at:%-d %b %Y, %H:%M} UTC" if at else text


def day(text: str) -> str:
    """Return a text such as `21 November`, or for an hour `21 November, 06:00`."""
    at = time(text)
    return (f"{at:%-d %B, %H:%M}" if is_hour(text) else f"{at:%-d %B}") if at else text


def is_hour(text: str) -> bool:
    """Return whether the date of a `Day` is an hour."""
    return "T" in text


def ago(since: str | None, now: str) -> str:
    """Return the time between two moments in one unit, such as `18 days`. Empty if not known."""
    first, last = time(since), time(now)
    if first is None or last is None or (first.tzinfo is None) != (last.tzinfo is None):
        return ""
    minutes = max(0, int((last - first).total_seconds() // 60))
    if not minutes:
        return "less than a minute"
    if minutes < _MINUTES_PER_HOUR:
        return plural(minutes, "minute")
    hours = minutes // _MINUTES_PER_HOUR
    return plural(hours, "hour") if hours < 2 * _HOURS_PER_DAY else plural(hours // _HOURS_PER_DAY, "day")
