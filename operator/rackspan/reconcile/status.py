"""Statuses are written when they changed, and only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.reconcile.ports import JsonObject


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> JsonObject:
    """The JSON merge patch (RFC 7396) from `old` to `new`; empty where they are equal.

    `new` holds no nulls: in a merge patch null means "remove".
    """
    patch: JsonObject = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            nested = merge_patch(before, value)
            if nested:
                patch[key] = nested
        elif value != before or key not in old:
            patch[key] = value
    return patch
