"""Which deletions of one topology wait for a person. Remembers; the rule itself is `deletion.crowded`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rackspan.api.conditions import STALLED, find_condition
from rackspan.api.racktopology import DeletionsStatus, RecentDeletions
from rackspan.api.reasons import Reason
from rackspan.reconcile.topics.deletion import WINDOW, crowded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey


class DeletionGate:
    """Opens for few deletions at a time, and for those that a person confirmed.

    What waits is known from the objects: when somebody asked to delete each, and what its status says. What went lately
    is known from the RackTopology's status. So a restart neither lets more go at once nor forgets who waits.
    """

    def __init__(self) -> None:
        self.waiting: Mapping[ObjectKey, KafkaTopic] = {}
        """Objects that wait for a person, as of the last review."""
        self._held: set[str] = set()
        self._confirmed: set[str] = set()
        self._gone: dict[str, datetime] = {}
        """By uid, when somebody asked for the deletions that were carried out unconfirmed."""
        self._before: Counter[datetime] = Counter()
        """The same of the operator's earlier life, whose uids are not known any more."""
        self._remembers = False

    def remember(self, status: DeletionsStatus | None) -> None:
        """Take over from the operator's earlier life, once."""
        if not self._remembers and status is not None:
            self._before.update({recent.at: recent.count for recent in status.recent})
        self._remembers = True

    def review(self, leaving: Sequence[KafkaTopic], doomed: Iterable[KafkaTopic], limit: int) -> None:
        """Look at all objects that would take their topics along.

        `leaving` are being deleted; `doomed` are those of namespaces that are, whether it is their turn already or not.
        """
        doomed = list(doomed)
        known = {topic.meta.uid for topic in (*leaving, *doomed)}
        self._held &= known
        self._confirmed &= known
        unconfirmed = [topic for topic in leaving if topic.meta.uid not in self._confirmed]
        asked = {**self._gone, **{topic.meta.uid: _asked(topic) for topic in unconfirmed}}
        crowd = crowded(Counter(asked.values()) + self._before, limit)
        for topic in unconfirmed:
            # Once held, always held: else to spare one topic of eleven would be to delete the ten others.
            if topic.meta.uid not in self._gone and (_asked(topic) in crowd or _was_held(topic)):
                self._held.add(topic.meta.uid)
        self.waiting = {
            topic.key: topic
            for topic in (*(topic for topic in unconfirmed if topic.meta.uid in self._held), *doomed)
            if topic.meta.uid not in self._confirmed
        }

    def confirm(self) -> None:
        """A person has said yes to all that wait now."""
        self._confirmed |= {topic.meta.uid for topic in self.waiting.values()}
        self._held -= self._confirmed
        self.waiting = {}

    def is_confirmed(self, topic: KafkaTopic) -> bool:
        """Whether a person has said yes to this one."""
        return topic.meta.uid in self._confirmed

    def going(self, topics: Iterable[KafkaTopic]) -> None:
        """These are deleted now. Those that a person confirmed do not count against the next ones."""
        self._gone |= {topic.meta.uid: _asked(topic) for topic in topics if not self.is_confirmed(topic)}
        times = {*self._gone.values(), *self._before}
        if times:
            oldest = max(times) - WINDOW
            self._gone = {uid: at for uid, at in self._gone.items() if at > oldest}
            self._before = Counter({at: count for at, count in self._before.items() if at > oldest})

    @property
    def status(self) -> DeletionsStatus | None:
        """What is to be remembered, and shown; None where there is nothing."""
        recent = Counter(self._gone.values()) + self._before
        if not recent and not self.waiting:
            return None
        return DeletionsStatus(
            len(self.waiting), tuple(RecentDeletions(at, count) for at, count in sorted(recent.items()))
        )


def _asked(topic: KafkaTopic) -> datetime:
    """When somebody asked to delete the object, in whole seconds as the API server keeps it."""
    asked = topic.meta.deletion_timestamp
    if asked is None:
        msg = f"{topic.key} is not being deleted"
        raise ValueError(msg)
    return asked


def _was_held(topic: KafkaTopic) -> bool:
    told = find_condition(topic.status.conditions, STALLED)
    return told is not None and told.reason == Reason.DELETION_HELD
