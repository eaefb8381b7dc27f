"""The watches: each event of one of Rackspan's kinds (listed, added, modified or deleted) goes to the manager."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.api import compliancereport, kafkatopic, racktopology, reassignment
from rackspan.api.labels import GROUP, VERSION
from rackspan.handlers.memo import Memo


@kopf.on.event(GROUP, VERSION, kafkatopic.PLURAL)
async def topic_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """An event of a KafkaTopic."""
    memo.take(kafkatopic.KIND, event)


@kopf.on.event(GROUP, VERSION, racktopology.PLURAL)
async def topology_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """An event of a RackTopology."""
    memo.take(racktopology.KIND, event)


@kopf.on.event(GROUP, VERSION, reassignment.PLURAL)
async def reassignment_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """An event of a Reassignment."""
    memo.take(reassignment.KIND, event)


@kopf.on.event(GROUP, VERSION, compliancereport.PLURAL)
async def report_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """An event of a ComplianceReport."""
    memo.take(compliancereport.KIND, event)
