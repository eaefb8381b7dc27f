"""Nodes: their labels give the racks of brokers."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.handlers.memo import Memo


@kopf.on.event("v1", "nodes")
async def node_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Listed, added, modified or deleted."""
    if event["type"] == "DELETED":
        memo.manager.node_gone(event["object"])
    elif event["type"] is None:
        memo.manager.node_seen(event["object"], listed=True)
        memo.manager.relisted()
    else:
        memo.manager.node_seen(event["object"])
