"""Which deletions of one topology wait for a person. Stateful; the rule itself is `deletion.bursts`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rackspan.api.conditions import STALLED, find_condition
from rackspan.api.racktopology import DeletionsStatus, RecentDeletions
from rackspan.api.reasons import Reason
from rackspan.reconcile.topics.deletion import RATE_WINDOW, bursts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey


class DeletionGate:
    """Lets a few deletions pass per minute; more need the confirmation of a person.

    Everything can be rebuilt from objects: requests from deletion timestamps, waiting ones from their status, recent
    deletions from the RackTopology's status. So a restart neither resets the rate nor releases what waits.
    """

    def __init__(self) -> None:
        self.waiting: Mapping[ObjectKey, KafkaTopic] = {}
        """Objects that need confirmation, as of the last review."""
        self._held: set[str] = set()
        self._confirmed: set[str] = set()
        self._recent: dict[str, datetime] = {}
        """By uid, when the deletions were requested that were carried out without confirmation."""
        self._restored: Counter[datetime] = Counter()
        """The same from before the operator's restart, as counts: their uids are not known any more."""
        self._is_restored = False

    def restore(self, status: DeletionsStatus | None) -> None:
        """Take over the recent deletions in the RackTopology's status; only the first call counts."""
        if not self._is_restored and status is not None:
            self._restored.update({recent.at: recent.count for recent in status.recent})
        self._is_restored = True

    def review(
        self, deleting: Sequence[KafkaTopic], in_terminating_namespaces: Iterable[KafkaTopic], limit: int
    ) -> None:
        """Update `waiting` from all objects whose topics would be deleted with them.

        `deleting` have a deletion timestamp. All objects in terminating namespaces wait, with a timestamp or without
        one yet. `limit` is the number of deletions per minute that pass without confirmation.
        """
        terminating = list(in_terminating_namespaces)
        known = {topic.meta.uid for topic in (*deleting, *terminating)}
        self._held &= known
        self._confirmed &= known
        unconfirmed = [topic for topic in deleting if topic.meta.uid not in self._confirmed]
        requested = {**self._recent, **{topic.meta.uid: _requested_at(topic) for topic in unconfirmed}}
        burst = bursts(Counter(requested.values()) + self._restored, limit)
        for topic in unconfirmed:
            # Held ones stay held when the burst shrinks: sparing one topic of eleven must not delete the ten others.
            if topic.meta.uid not in self._recent and (_requested_at(topic) in burst or _was_held(topic)):
                self._held.add(topic.meta.uid)
        self.waiting = {
            topic.key: topic
            for topic in (*(topic for topic in unconfirmed if topic.meta.uid in self._held), *terminating)
            if topic.meta.uid not in self._confirmed
        }

    def confirm(self) -> None:
        """A person confirmed all deletions that wait now."""
        self._confirmed |= {topic.meta.uid for topic in self.waiting.values()}
        self._held -= self._confirmed
        self.waiting = {}

    def is_confirmed(self, topic: KafkaTopic) -> bool:
        """Whether a person confirmed this deletion."""
        return topic.meta.uid in self._confirmed

    def record_deletions(self, topics: Iterable[KafkaTopic]) -> None:
        """Count topics that are about to be deleted; confirmed ones do not count against the limit."""
        self._recent |= {topic.meta.uid: _requested_at(topic) for topic in topics if not self.is_confirmed(topic)}
        times = {*self._recent.values(), *self._restored}
        if times:
            oldest = max(times) - RATE_WINDOW
            self._recent = {uid: at for uid, at in self._recent.items() if at > oldest}
            self._restored = Counter({at: count for at, count in self._restored.items() if at > oldest})

    @property
    def status(self) -> DeletionsStatus | None:
        """`status.deletions` of the RackTopology; None where nothing waits and nothing was deleted lately."""
        recent = Counter(self._recent.values()) + self._restored
        if not recent and not self.waiting:
            return None
        return DeletionsStatus(
            len(self.waiting), tuple(RecentDeletions(at, count) for at, count in sorted(recent.items()))
        )


def _requested_at(topic: KafkaTopic) -> datetime:
    """The object's deletion timestamp, which the API server keeps in whole seconds. Raises ValueError without one."""
    requested = topic.meta.deletion_timestamp
    if requested is None:
        msg = f"{topic.key} is not being deleted"
        raise ValueError(msg)
    return requested


def _was_held(topic: KafkaTopic) -> bool:
    stalled = find_condition(topic.status.conditions, STALLED)
    return stalled is not None and stalled.reason == Reason.DELETION_HELD
