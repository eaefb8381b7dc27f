"""Amounts of CPU and memory in the notations of Kubernetes and of Spark. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_QUANTITY: Final = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_HEAP: Final = re.compile(r"([0-9]{1,30})([kmgt])")
_SCALES: Final = {
    "m": Decimal("0.001"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGT", start=1)},
    **{unit: Decimal(1024) ** power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti"), start=1)},
}


def parse_quantity(text: int | str) -> Decimal:
    """A Kubernetes quantity, such as 1, 500m or 2Gi, in CPUs or bytes. Raises ValueError."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f"{str(text)[:40]!r} is no amount such as 500m or 2Gi")
    number, unit = found.groups()
    return Decimal(number) * _SCALES.get(unit or "", Decimal(1))


def capped(amount: int | str, bound: str) -> int | str:
    """The smaller of a quantity and its bound; the bound where the quantity is invalid."""
    try:
        return min(amount, bound, key=parse_quantity)
    except ValueError:
        return bound


def parse_heap(text: str) -> int:
    """Bytes of a size in Spark's notation, such as 512m or 2g. Raises ValueError."""
    found = _HEAP.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no heap such as 512m or 2g")
    number, unit = found.groups()
    scale: int = 1024 ** ("kmgt".index(unit) + 1)
    return int(number) * scale
