"""The dependencies that control loops share."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rackspan.reconcile.runtime.threads import ThirdPartyPlacers
from rackspan.reconcile.runtime.waiting import Liveness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rackspan.api.meta import ObjectKey
    from rackspan.core.placement import Placer
    from rackspan.reconcile.cache import Cache
    from rackspan.reconcile.ports import KafkaConnector, KubeApi, ReassignmentConnector, ReassignmentObjects
    from rackspan.reconcile.runtime.writers import FinalizerWriter, StatusWriter


@dataclass(frozen=True, slots=True)
class ReassignmentDependencies:
    """The dependencies of carrying out Reassignments."""

    cache: Cache
    kube: KubeApi
    objects: ReassignmentObjects
    connector: ReassignmentConnector
    finalizers: FinalizerWriter
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    liveness: Liveness = field(default_factory=Liveness)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies(ReassignmentDependencies):
    """The additional dependencies of the topology loops, such as the installed placers by name.

    `lease` is the key of this operator's Lease, which is written into statuses.
    """

    kafka: KafkaConnector
    statuses: StatusWriter
    placers: Mapping[str, Placer]
    resync_seconds: float
    lease: ObjectKey
    third_party: ThirdPartyPlacers = field(default_factory=ThirdPartyPlacers)
