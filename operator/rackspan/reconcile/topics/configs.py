"""When two texts of a topic config are one value. Pure.

Kafka answers with its own spelling of what it was given (`ConfigDef.convertToString`): `TRUE` comes back as `true`,
`0.70` as `0.7`, `compact, delete` as `compact,delete`. Compared as texts these would be drift for ever.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_NUMBER = 400
"""Of characters: more than a double has, and fewer than Python refuses to read."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def differing(wanted: Mapping[str, str], own: Mapping[str, str | None]) -> Mapping[str, str]:
    """What of `wanted` is not in force yet; `own` are the configs that are set on the topic itself."""
    return {
        key: value for key, value in wanted.items() if (there := own.get(key)) is None or not same_value(value, there)
    }


def same_value(one: str, other: str) -> bool:
    """Whether Kafka reads both texts as the same value."""
    return one == other or _items(one) == _items(other)


def _items(text: str) -> list[str | float]:
    return [_item(part.strip()) for part in text.split(",")]


def _item(text: str) -> str | float:
    if text.lower() in ("true", "false"):
        return text.lower()
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)
