"""Numbers and foreign texts as people read them, on the command line, in conditions and on pages alike."""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence

_KIBI = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def decoded(text: bytes) -> str:
    """The text of a file: UTF-8, or UTF-16 where its byte order mark says so. Raises UnicodeDecodeError."""
    return text.decode("utf-16" if text.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 partition`, `2,000 partitions`; `many` is for nouns that take more than an s."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def be(number: int) -> str:
    """`is` of one, `are` of any other number."""
    return "is" if number == 1 else "are"


def have(number: int) -> str:
    """`has` of one, `have` of any other number."""
    return "has" if number == 1 else "have"


def every(number: int, noun: str) -> str:
    """`all 4 partitions are`, `the one partition is`: what sentences about everything begin with."""
    return f"the one {noun} is" if number == 1 else f"all {plural(number, noun)} are"


def few(names: Sequence[str], most: int = 10) -> str:
    """`a, b`, or `a, b and 7 more`: the first names, and how many there are besides."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def size(number: float | None, unknown: str = "unknown") -> str:
    """Bytes in binary units; `unknown` where nobody knows."""
    if number is None:
        return unknown
    value, unit = float(number), 0
    while value >= _KIBI and unit < len(_UNITS) - 1:
        value, unit = value / _KIBI, unit + 1
    return f"{value:,.0f} B" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"


def rounded(number: int) -> int:
    """A number that changes all the time, to two digits."""
    return round(number, min(0, 2 - len(str(number))))


def escaped(text: str) -> str:
    r"""The text with escapes such as `\x1b`, `\n` and `\u202e` for what is not printed, and a terminal might obey."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def shown(text: str, most: int = 1_000) -> str:
    """Text that others chose as it may be printed: escaped, and without its middle if it is longer than `most`."""
    printable = escaped(text)
    if len(printable) <= most:
        return printable
    half = most // 2
    return f"{printable[:half]}…{printable[-half:]}"
