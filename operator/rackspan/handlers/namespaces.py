"""Namespaces: a topology's allowedNamespaces selects by their labels."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.handlers.memo import Memo


@kopf.on.event("v1", "namespaces")
async def namespace_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Listed, added, modified or deleted."""
    if event["type"] == "DELETED":
        memo.manager.namespace_gone(event["object"])
    elif event["type"] is None:
        memo.manager.namespace_seen(event["object"], listed=True)
        memo.manager.relisted()
    else:
        memo.manager.namespace_seen(event["object"])
