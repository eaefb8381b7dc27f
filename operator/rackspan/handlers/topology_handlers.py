"""RackTopologies."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.api.labels import GROUP, VERSION
from rackspan.api.racktopology import KIND, PLURAL
from rackspan.handlers.memo import Memo


@kopf.on.event(GROUP, VERSION, PLURAL)
async def topology_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Listed, added, modified or deleted."""
    memo.take(KIND, event)
