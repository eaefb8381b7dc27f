"""Shares and times as a page says them. Times are UTC; what is no time is shown as it is."""

from datetime import datetime

from rackspan.core.text import plural

_MINUTES_PER_HOUR, _HOURS_PER_DAY = 60, 24


def share(part: float, whole: float) -> str:
    """A percentage; rounded so that only all is 100 % and only nothing is 0 %."""
    if whole <= 0:
        return "\N{EN DASH}"
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "<1 %"
    digits = 1 if 99 < percent < 100 else 0  # noqa: PLR2004 - where the last percent is what matters
    return f"{min(percent, 99.9) if part < whole else percent:.{digits}f} %"


def duration(minutes: float) -> str:
    """Minutes in the two largest units: `3 d 4 h`, `12 min`."""
    whole = round(minutes)
    days, rest = divmod(whole, _MINUTES_PER_HOUR * _HOURS_PER_DAY)
    hours, left = divmod(rest, _MINUTES_PER_HOUR)
    parts = [f"{number:,} {unit}" for number, unit in ((days, "d"), (hours, "h"), (left, "min")) if number]
    return " ".join(parts[:2]) or ("0 min" if minutes <= 0 else "<1 min")


def time(text: str | None) -> datetime | None:
    """Read an RFC 3339 time; None for what is none."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def moment(text: str) -> str:
    """`21 Nov 2026, 12:35 UTC`."""
    at = time(text)
    return f"{at:%-d %b %Y, %H:%M} UTC" if at else text


def day(text: str) -> str:
    """`21 November`, and for an hour `21 November, 06:00`."""
    at = time(text)
    return (f"{at:%-d %B, %H:%M}" if is_hour(text) else f"{at:%-d %B}") if at else text


def is_hour(text: str) -> bool:
    """Whether the date of a `Day` is that of an hour."""
    return "T" in text


def ago(since: str | None, now: str) -> str:
    """Time between the two for people, in one unit: `18 days`. Empty where it is not known."""
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
