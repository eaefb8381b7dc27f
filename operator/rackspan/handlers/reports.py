"""ComplianceReports: what scans found."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.api.compliancereport import PLURAL
from rackspan.api.labels import GROUP, VERSION
from rackspan.handlers.memo import Memo


@kopf.on.event(GROUP, VERSION, PLURAL)
async def report_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Listed, added, changed or deleted."""
    if event["type"] == "DELETED":
        memo.controller.report_gone(event["object"])
    elif event["type"] is None:
        memo.controller.report_seen(event["object"], listed=True)
        memo.controller.relisted()
    else:
        memo.controller.report_seen(event["object"])
