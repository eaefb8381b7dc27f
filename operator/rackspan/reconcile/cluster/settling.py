"""Which racks have lasted: plans are made from these, so that a label that flaps moves nothing. Pure.

What is judged and shown follows the labels at once; moving replicas is dear, and takes a rack that stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rackspan.core.rack_path import RackPathError, parse_rack
from rackspan.reconcile.cluster.racks import with_racks

if TYPE_CHECKING:
    from rackspan.api.racktopology import RackTopology
    from rackspan.core.rack_path import RackPath
    from rackspan.reconcile.cluster.racks import RackView

RACKS_SETTLE_SECONDS: Final = 15.0
"""How long a broker's rack has to stay the same before plans count on it."""


@dataclass(slots=True)
class _Rack:
    """A broker's rack that has lasted, the one seen last, and since when it is that."""

    settled: RackPath
    seen: RackPath | None
    since: float


class Settling:
    """The racks of one topology's brokers over time. Times are in seconds of any one clock."""

    def __init__(self) -> None:
        self._racks: dict[int, _Rack] = {}
        self._asked: str | None = None

    def settled(self, topology: RackTopology, view: RackView, now: float) -> RackView:
        """`view` with the racks that have lasted; `view` itself where all have.

        The first rack of a broker counts at once, and so does every rack after a change of the spec. A rack that is not
        known is not replaced by an old one.
        """
        spec, asked = topology.spec, topology.spec.rack_hash
        if self._asked != asked:
            first, self._asked = self._asked is None, asked
            self._racks = _from_status(topology, now) if first else {}
        rows = {row.id: row.rack for row in view.rows}
        self._racks = {broker: known for broker, known in self._racks.items() if broker in rows}
        for broker, rack in rows.items():
            self._see(broker, rack, now)
        kept = {
            broker: self._racks[broker].settled
            for broker, rack in rows.items()
            if rack is not None and self._racks[broker].settled != rack
        }
        return with_racks(spec, view, kept) if kept else view

    def due_in(self, now: float) -> float | None:
        """Seconds until the next rack has lasted, if none changes; None where all have."""
        due = [
            known.since + RACKS_SETTLE_SECONDS - now
            for known in self._racks.values()
            if known.seen is not None and known.seen != known.settled
        ]
        return max(0.0, min(due)) if due else None

    def _see(self, broker: int, rack: RackPath | None, now: float) -> None:
        known = self._racks.get(broker)
        if known is None:
            if rack is not None:
                self._racks[broker] = _Rack(rack, rack, now)
            return
        if known.seen != rack:
            known.seen, known.since = rack, now
        if rack is not None and now - known.since >= RACKS_SETTLE_SECONDS:
            known.settled = rack


def _from_status(topology: RackTopology, now: float) -> dict[int, _Rack]:
    """What the operator's predecessor saw last; nothing where that was by another spec."""
    status = topology.status
    if not topology.has_current_racks:
        return {}
    found = {}
    for broker in status.brokers:
        try:
            path = parse_rack(broker.rack or "")
        except RackPathError:
            continue
        if len(path) <= len(topology.spec.levels):
            found[broker.id] = _Rack(path, path, now)
    return found
