"""RackTopologies."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.api.labels import GROUP, VERSION
from rackspan.api.racktopology import PLURAL
from rackspan.handlers.memo import Memo


@kopf.index(GROUP, VERSION, PLURAL)
async def topology_listed(body: kopf.Body, memo: Memo, **_: Any) -> None:
    """Known before anything is decided about any other; kopf calls this before any event handler runs."""
    memo.controller.topology_listed(dict(body))


@kopf.on.event(GROUP, VERSION, PLURAL)
async def topology_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Listed, added, changed or deleted."""
    if event["type"] == "DELETED":
        memo.controller.topology_gone(event["object"])
    elif event["type"] is None:
        memo.controller.topology_relisted(event["object"])
    else:
        memo.controller.topology_seen(event["object"])
