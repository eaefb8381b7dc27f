"""Namespaces: a topology's allowedNamespaces selects by their labels."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.handlers.memo import Memo


@kopf.index("v1", "namespaces")
async def namespace_seen(body: kopf.Body, memo: Memo, **_: Any) -> None:
    """Listed, added or modified. At the start kopf calls this before any event handler."""
    memo.manager.namespace_seen(dict(body))


@kopf.on.event("v1", "namespaces")
async def namespace_gone(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Deleted, or listed at the start of a watch."""
    if event["type"] == "DELETED":
        memo.manager.namespace_gone(event["object"])
    elif event["type"] is None:
        memo.manager.namespace_seen(event["object"], listed=True)
        memo.manager.relisted()
