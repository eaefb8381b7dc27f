"""KafkaTopics."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.api.kafkatopic import PLURAL
from rackspan.api.labels import GROUP, VERSION
from rackspan.handlers.memo import Memo


@kopf.on.event(GROUP, VERSION, PLURAL)
async def topic_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Listed, added, modified or deleted."""
    if event["type"] == "DELETED":
        memo.manager.topic_gone(event["object"])
    elif event["type"] is None:
        memo.manager.topic_relisted(event["object"])
    else:
        memo.manager.topic_seen(event["object"])
