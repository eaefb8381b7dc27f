"""Whose scan is next, where more are due than may run at once. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from rackspan.api.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class Waiting:
    """
    A topology whose scan is due, since when, and whether its namespace is trusted.

    `replaces` says that it would end the scan of it that runs, and so takes no further place.
    """

    key: ObjectKey
    since: datetime
    trusted: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class Turns:
    """At most `running` scans at once, and `per_namespace` of the topologies of one namespace that is not trusted."""

    running: int
    per_namespace: int

    def next(self, waiting: Iterable[Waiting], running: Collection[ObjectKey]) -> frozenset[ObjectKey]:
        """
        The topologies whose scans may start now, beside those of `running`.

        Namespaces that have the fewest scans running go first, so that one with many topologies holds up nobody else;
        among them, and within one, who has waited longest. A scan that replaces another has no place of its own while
        others wait for one: it would keep it for ever.
        """
        of_namespace, busy = Counter(key.namespace for key in running), len(running)
        left = list(waiting)
        chosen: set[ObjectKey] = set()
        while left:
            if busy >= self.running and not all(one.replaces for one in left):
                break
            able = [one for one in left if self._is_able(one, of_namespace)]
            if not able:
                break
            first = min(able, key=lambda one: (of_namespace[one.key.namespace], one.since, one.key))
            left.remove(first)
            chosen.add(first.key)
            if not first.replaces:
                of_namespace[first.key.namespace] += 1
                busy += 1
        return frozenset(chosen)

    def _is_able(self, one: Waiting, of_namespace: Counter[str]) -> bool:
        return one.trusted or one.replaces or of_namespace[one.key.namespace] < self.per_namespace
