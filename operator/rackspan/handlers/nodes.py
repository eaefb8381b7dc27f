"""Nodes: their labels say where brokers run."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.handlers.memo import Memo


@kopf.index("v1", "nodes")
async def node_seen(body: kopf.Body, memo: Memo, **_: Any) -> None:
    """Listed, added or changed; kopf calls this before any event handler of any kind runs."""
    memo.controller.node_seen(dict(body))


@kopf.on.event("v1", "nodes")
async def node_gone(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Deleted, or listed anew."""
    if event["type"] == "DELETED":
        memo.controller.node_gone(event["object"])
    elif event["type"] is None:
        memo.controller.node_seen(event["object"], listed=True)
        memo.controller.relisted()
