"""The ports of racks: the ConfigMaps that publish them, and brokers' pods."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import JsonObject


@dataclass(frozen=True, slots=True)
class RackFileMeta:
    """A published ConfigMap as it is now: of which RackTopology, and at which resourceVersion."""

    uid: str
    version: str
    topology: ObjectKey | None
    topology_uid: str | None


@dataclass(frozen=True, slots=True)
class RackFileList:
    """The published ConfigMaps; `failed` has the namespaces that cannot be listed, `*` for all of them."""

    found: Mapping[ObjectKey, RackFileMeta]
    failed: Mapping[str, Failure]


class RackFiles(Protocol):
    """The ConfigMaps that publish racks, by label. Every call raises FailureError."""

    async def published(self) -> RackFileList:
        """All that there are in the namespaces where racks may be published; metadata only."""

    async def create(self, body: JsonObject) -> RackFileMeta | None:
        """Create one; None where there is a ConfigMap of that name already."""

    async def replace(self, known: RackFileMeta, body: JsonObject) -> RackFileMeta | None:
        """Give the ConfigMap as it is in `known` this content; None where it changed or is gone."""

    async def delete(self, key: ObjectKey, known: RackFileMeta) -> None:
        """Delete this very object, by uid. Succeeds where it is gone already."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod as it is now."""

    uid: str
    node: str | None
    deleting: bool
    ready: bool
    has_controller: bool
    """Whether something such as a StatefulSet makes it again."""


class Eviction(Enum):
    """What became of an eviction."""

    ACCEPTED = auto()
    REFUSED = auto()
    """The PodDisruptionBudget does not allow it now (429)."""
    GONE = auto()
    """There is no such pod any more."""


class BrokerPods(Protocol):
    """Brokers' pods. Every call raises FailureError."""

    async def annotate(self, key: ObjectKey, rack: str | None) -> None:
        """Write a rack on one pod, for people to see, or take it off. Succeeds where there is no such pod."""

    async def get(self, key: ObjectKey) -> PodFacts | None:
        """One pod; None where there is none of that name."""

    async def evict(self, key: ObjectKey, uid: str, *, rehearse: bool) -> Eviction:
        """Evict this very pod (policy/v1), or with `rehearse` only ask whether that were accepted (dryRun)."""
