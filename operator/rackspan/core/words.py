"""Numbers as people read them, on the command line, in conditions and on pages alike."""

_KIBI = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 partition`, `2,000 partitions`; `many` is for nouns that take more than an s."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def be(number: int) -> str:
    """`is` of one, `are` of any other number."""
    return "is" if number == 1 else "are"


def every(number: int, noun: str) -> str:
    """`all 4 partitions are`, `the one partition is`: what sentences about everything begin with."""
    return f"the one {noun} is" if number == 1 else f"all {plural(number, noun)} are"


def size(number: float | None, unknown: str = "unknown") -> str:
    """Bytes in binary units; `unknown` where nobody knows."""
    if number is None:
        return unknown
    value, unit = float(number), 0
    while value >= _KIBI and unit < len(_UNITS) - 1:
        value, unit = value / _KIBI, unit + 1
    return f"{value:,.0f} B" if unit == 0 else f"{value:,.1f} {_UNITS[unit]}"
