"""Pods: the brokers' pods give the node of each broker."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.handlers.memo import Memo


@kopf.on.event("v1", "pods")
async def pod_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Listed, added, modified or deleted."""
    if event["type"] == "DELETED":
        memo.manager.pod_gone(event["object"])
    elif event["type"] is None:
        memo.manager.pod_seen(event["object"], listed=True)
        memo.manager.relisted()
    else:
        memo.manager.pod_seen(event["object"])
