"""Passes each watch event of Rackspan's kinds (listed, added, modified or deleted) to the manager."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import kopf

from rackspan.api import compliancereport, kafkatopic, racktopology, reassignment
from rackspan.api.labels import GROUP, VERSION
from rackspan.handlers.api_session import Survival

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rackspan.kube.authentication import Authentication
    from rackspan.reconcile.manager import Manager


@dataclass(frozen=True, slots=True)
class Memo:
    """The object that kopf passes to every handler. Kopf copies it for each object, so it has only references."""

    manager: Manager
    access: Authentication
    stop: Callable[[], Awaitable[object]]
    """Stops the manager's tasks and the Kafka clients. Kopf waits 5 s for each task that is left when kopf ends."""
    survival: Survival = field(default_factory=Survival)

    def take(self, kind: str, event: kopf.RawEvent) -> None:
        """Pass an event to the informer of a kind, and then remove spec and status, because kopf keeps the object."""
        body = event["object"]
        self.manager.informers[kind].take(event["type"], body)
        for part in ("spec", "status"):
            cast("dict[str, Any]", body).pop(part, None)


@kopf.on.event(GROUP, VERSION, kafkatopic.PLURAL, param=kafkatopic.KIND)
@kopf.on.event(GROUP, VERSION, racktopology.PLURAL, param=racktopology.KIND)
@kopf.on.event(GROUP, VERSION, reassignment.PLURAL, param=reassignment.KIND)
@kopf.on.event(GROUP, VERSION, compliancereport.PLURAL, param=compliancereport.KIND)
async def watch_event(event: kopf.RawEvent, memo: Memo, param: str = "", **_: Any) -> None:
    """Handle an event of an object of the kind `param`."""
    memo.take(param, event)
