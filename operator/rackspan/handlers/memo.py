"""What kopf passes to every handler as `memo`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from rackspan.handlers.api_session import Survival

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import kopf

    from rackspan.kube.authentication import Authentication
    from rackspan.reconcile.manager import Manager


@dataclass(frozen=True, slots=True)
class Memo:
    """Copied by kopf for each object, so it holds only references."""

    manager: Manager
    access: Authentication
    stop: Callable[[], Awaitable[object]]
    """Ends what the manager runs, and the Kafka clients. Kopf waits 5 s for each task that it finds at its end."""
    survival: Survival = field(default_factory=Survival)

    def take(self, kind: str, event: kopf.RawEvent) -> None:
        """Hand an event to the informer of a kind. Spec and status are taken out of it: kopf holds on to the rest."""
        body = event["object"]
        self.manager.informers[kind].take(event["type"], body)
        for part in ("spec", "status"):
            cast("dict[str, Any]", body).pop(part, None)
