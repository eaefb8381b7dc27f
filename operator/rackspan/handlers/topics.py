"""KafkaTopics."""

from __future__ import annotations

from typing import Any

import kopf

from rackspan.api.kafkatopic import PLURAL
from rackspan.api.labels import GROUP, VERSION
from rackspan.handlers.memo import Memo


@kopf.index(GROUP, VERSION, PLURAL)
async def topic_listed(body: kopf.Body, memo: Memo, **_: Any) -> None:
    """Fills the cache: at the start kopf calls this before any event handler."""
    memo.manager.topic_listed(dict(body))


@kopf.on.event(GROUP, VERSION, PLURAL)
async def topic_event(event: kopf.RawEvent, memo: Memo, **_: Any) -> None:
    """Listed, added, modified or deleted."""
    if event["type"] == "DELETED":
        memo.manager.topic_gone(event["object"])
    elif event["type"] is None:
        memo.manager.topic_relisted(event["object"])
    else:
        memo.manager.topic_seen(event["object"])
