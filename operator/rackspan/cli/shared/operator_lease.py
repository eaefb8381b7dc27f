"""Whether the operator of a RackTopology runs, by the Lease that its status names."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import RackTopology
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.times import utc_time
from rackspan.cli.shared.looking import until
from rackspan.core.text import shown

if TYPE_CHECKING:
    from rackspan.kube.topology_edits import TopologyEdits
    from rackspan.reconcile.runtime.lease import LeaseRecord

_MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class OperatorLease:
    """A Lease and its holder, None if there is none or the holder has not renewed the Lease since `renewed_at`."""

    key: ObjectKey
    holder: str | None
    renewed_at: datetime | None = None

    @property
    def absence(self) -> str:
        """What is known without a holder."""
        last = f" since {utc_time(self.renewed_at)}" if self.renewed_at else ""
        return f"no operator runs: no process has renewed Lease {self.key}{last}"


async def operator_of(edits: "TopologyEdits", topology: RackTopology) -> OperatorLease | None:
    """Return the Lease of a topology's operator, None if the status does not name it. Raises FailureError."""
    namespace, slash, name = (topology.status.lease or "").partition("/")
    return await operator_lease(edits, ObjectKey(namespace, name)) if slash else None


async def operator_lease(edits: "TopologyEdits", key: ObjectKey) -> OperatorLease:
    """Read the Lease. Raises FailureError.

    If the renewal time is too old by the clock of this machine, watch the Lease for half of its duration. A running
    operator renews it within that time, even if the clocks differ.
    """
    first = await edits.lease(key)
    if first is None or not first.holder:
        return OperatorLease(key, None, None if first is None else first.renewed_at)
    duration = timedelta(seconds=first.duration_seconds)
    if first.renewed_at is None or abs(datetime.now(UTC) - first.renewed_at) > duration:

        def renewed(found: "LeaseRecord | None") -> bool:
            return found is None or found.is_renewal_of(first)

        with step(f"looking whether Lease {key} is renewed"):
            last = await until(lambda: edits.lease(key), renewed, duration.total_seconds() / 2)
        if last is None or not last.holder or not renewed(last):
            return OperatorLease(key, None, first.renewed_at)
    return OperatorLease(key, shown(first.holder, _MOST_SHOWN), first.renewed_at)
