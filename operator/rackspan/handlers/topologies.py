"""RackTopologies."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.api.labels import GROUP, VERSION
from rackspan.api.racktopology import PLURAL
from rackspan.handlers.memo import Memo


@kopf.on.event(GROUP, VERSION, PLURAL)
async def topology_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Listed, added, modified or deleted."""
    if event["type"] == "DELETED":
        memo.manager.topology_gone(event["object"])
    elif event["type"] is None:
        memo.manager.topology_relisted(event["object"])
    else:
        memo.manager.topology_seen(event["object"])
