"""Pods: the broker pods say which broker runs on which node."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.handlers.memo import Memo


@kopf.index("v1", "pods")
async def pod_seen(body: kopf.Body, memo: Memo, **_: Any) -> None:
    """Listed, added or changed; kopf calls this before any event handler of any kind runs."""
    memo.controller.pod_seen(dict(body))


@kopf.on.event("v1", "pods")
async def pod_gone(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Deleted, or listed anew."""
    if event["type"] == "DELETED":
        memo.controller.pod_gone(event["object"])
    elif event["type"] is None:
        memo.controller.pod_seen(event["object"], listed=True)
        memo.controller.relisted()
