"""Compares topic configs by value, not by spelling. Pure.

Kafka normalizes values (`ConfigDef.convertToString`), so that a comparison of texts would report drift for ever:

    set                 returned
    `TRUE`              `true`
    `0.70`              `0.7`
    `compact, delete`   `compact,delete`
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.reconcile.ports import KubernetesEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.ports import ConfigChange, ObjectRef

_LONGEST_NUMBER = 400
"""In characters: longer than any double, and within the digits that Python converts to an int."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def differing(wanted: Mapping[str, str], own: Mapping[str, str | None]) -> Mapping[str, str]:
    """The entries of `wanted` whose value differs from that in `own`, the configs set on the topic itself."""
    return {
        key: value for key, value in wanted.items() if (there := own.get(key)) is None or not same_value(value, there)
    }


def same_value(one: str, other: str) -> bool:
    """Whether Kafka parses both texts to the same value, in lists item by item."""
    return one == other or _items(one) == _items(other)


def _items(text: str) -> list[str | float]:
    return [_item(part.strip()) for part in text.split(",")]


def _item(text: str) -> str | float:
    if text.lower() in ("true", "false"):
        return text.lower()
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def config_event(about: ObjectRef, change: ConfigChange, why: str = "set") -> KubernetesEvent:
    """The Event for configs that were set."""
    what = ", ".join(f"{key}={value}" for key, value in sorted(change.set.items()))
    return KubernetesEvent(about, Reason.CONFIG_UPDATED, f"topic {change.name}: {why}: {what}")
