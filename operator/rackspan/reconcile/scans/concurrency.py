"""Which scans may start, where more are due than may run at once: fair among namespaces. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from rackspan.api.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class PendingScan:
    """A scan that is due, by its topology.

    `since` is when it became due, `trusted` whether its namespace is exempt from the limit per namespace, `replaces`
    whether it replaces the topology's running scan, so that the number of running scans does not grow.
    """

    key: ObjectKey
    since: datetime
    trusted: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """At most `max_running` scans at once, and `max_per_namespace` of each namespace that is not trusted."""

    max_running: int
    max_per_namespace: int

    def admit(self, pending: Iterable[PendingScan], running: Collection[ObjectKey]) -> frozenset[ObjectKey]:
        """The topologies of `pending` scans that may start now; `running` has one entry for each running scan.

        Namespaces with the fewest running scans go first, so that one with many topologies cannot block the others;
        within a namespace, and among equals, the scan that has waited longest. Once a scan waits for a free slot,
        replacing scans wait too: a topology that replaces its scan again and again would keep its slot for ever.
        """
        of_namespace, busy = Counter(key.namespace for key in running), len(running)
        left = list(pending)
        chosen: set[ObjectKey] = set()
        while left:
            if busy >= self.max_running and not all(one.replaces for one in left):
                break
            eligible = [one for one in left if self._fits_namespace(one, of_namespace)]
            if not eligible:
                break
            first = min(eligible, key=lambda one: (of_namespace[one.key.namespace], one.since, one.key))
            left.remove(first)
            chosen.add(first.key)
            if not first.replaces:
                of_namespace[first.key.namespace] += 1
                busy += 1
        return frozenset(chosen)

    def _fits_namespace(self, one: PendingScan, of_namespace: Counter[str]) -> bool:
        return one.trusted or one.replaces or of_namespace[one.key.namespace] < self.max_per_namespace
