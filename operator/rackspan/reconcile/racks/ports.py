"""The port through which racks are published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.ports import JsonObject


@dataclass(frozen=True, slots=True)
class RackFileMeta:
    """A published ConfigMap as it is now: of which RackTopology, and at which resourceVersion."""

    uid: str
    version: str
    topology: ObjectKey | None
    topology_uid: str | None


class RackFiles(Protocol):
    """The ConfigMaps that publish racks, by label. Every call raises FailureError."""

    async def published(self) -> Mapping[ObjectKey, RackFileMeta]:
        """All that there are in the namespaces where racks may be published; metadata only."""

    async def create(self, body: JsonObject) -> RackFileMeta | None:
        """Create one; None where there is a ConfigMap of that name already."""

    async def replace(self, known: RackFileMeta, body: JsonObject) -> RackFileMeta | None:
        """Give the ConfigMap as it is in `known` this content; None where it changed or is gone."""

    async def delete(self, key: ObjectKey, known: RackFileMeta) -> None:
        """Delete this very object, by uid. Succeeds where it is gone already."""
