"""Formatting of numbers and of untrusted text for people: on the command line, in conditions and on pages."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence

_KIBI = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def decoded(text: bytes) -> str:
    """Return the text of a file: UTF-8, or UTF-16 if it has that byte order mark. Raises UnicodeDecodeError."""
    return text.decode("utf-16" if text.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")


def plural(number: int, noun: str, many: str | None = None) -> str:
    """Return `1 partition` or `2,000 partitions`; `many` is the plural of a noun that does not just add an s."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def be(number: int) -> str:
    """Return `is` for one, `are` for any other number."""
    return "is" if number == 1 else "are"


def have(number: int) -> str:
    """Return `has` for one, `have` for any other number."""
    return "has" if number == 1 else "have"


def every(number: int, noun: str) -> str:
    """Return `all 4 partitions are` or `the one partition is`, the beginning of a sentence about all of them."""
    return f"the one {noun} is" if number == 1 else f"all {plural(number, noun)} are"


def few(names: Sequence[str], most: int = 10) -> str:
    """Return `a, b` or `a, b and 7 more`: the first `most` names and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def size(number: float | None, unknown: str = "unknown") -> str:
    """Return a number of bytes in binary units; `unknown` if the number is None."""
    if number is None:
        return unknown
    value, unit = float(number), 0
    while round(value, min(unit, 1)) >= _KIBI and unit < len(_UNITS) - 1:
        value, unit = value / _KIBI, unit + 1
    return f"{value:,.0f} B" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def rounded(number: int) -> int:
    """Return a number rounded to two significant digits, for numbers that change all the time."""
    return round(number, min(0, 2 - len(str(number))))


def escaped(text: str) -> str:
    r"""Return the text with escapes such as `\x1b` for unprintable characters, which could control a terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def shown(text: str, most: int = 1_000) -> str:
    """Return untrusted text in a form that is safe to print: escaped, the middle cut out if longer than `most`."""
    printable = escaped(text)
    if len(printable) <= most:
        return printable
    half = most // 2
    return f"{printable[:half]}…{printable[-half:]}"
