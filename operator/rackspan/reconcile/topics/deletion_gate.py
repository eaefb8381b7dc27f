"""Which deletions of one topology wait for a person. Stateful; the rule itself is `deletion.bursts`."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from rackspan.api.conditions import STALLED, find_condition
from rackspan.api.racktopology import MAX_HELD, MAX_RECENT, DeletionsStatus, HeldDeletions, RecentDeletions
from rackspan.api.reasons import Reason
from rackspan.reconcile.topics.topic_deletion import RATE_WINDOW, bursts, confirmation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey


class _Request(NamedTuple):
    """That a deletion was asked for in a namespace; the API server keeps the time in whole seconds."""

    namespace: str
    at: datetime


class DeletionGate:
    """Lets a few deletions of each namespace pass per minute; more need the confirmation of a person.

    Everything can be rebuilt from objects: requests from deletion timestamps, waiting ones from their status, recent
    deletions from the RackTopology's status. So a restart neither resets the rate nor releases what waits.
    """

    def __init__(self) -> None:
        self.waiting: Mapping[ObjectKey, KafkaTopic] = {}
        """Objects that need confirmation, as of the last review."""
        self._held: set[str] = set()
        self._confirmed: set[str] = set()
        self._recent: dict[str, _Request] = {}
        """By uid, the deletions that were carried out without confirmation."""
        self._restored: Counter[_Request] = Counter()
        """The same from before the operator's restart, as counts: their uids are not known any more."""
        self._is_restored = False

    def restore(self, status: DeletionsStatus | None) -> None:
        """Take over the recent deletions in the RackTopology's status; only the first call counts."""
        if not self._is_restored and status is not None:
            self._restored.update({_Request(recent.namespace, recent.at): recent.count for recent in status.recent})
        self._is_restored = True

    def review(
        self, deleting: Sequence[KafkaTopic], in_terminating_namespaces: Iterable[KafkaTopic], limit: int
    ) -> None:
        """Update `waiting` from all objects whose topics would be deleted with them.

        `deleting` have a deletion timestamp. All objects in terminating namespaces wait, with a timestamp or without
        one yet. `limit` is the number of deletions of a namespace per minute that pass without confirmation.
        """
        terminating = list(in_terminating_namespaces)
        known = {topic.meta.uid for topic in (*deleting, *terminating)}
        self._held &= known
        self._confirmed &= known
        unconfirmed = [topic for topic in deleting if topic.meta.uid not in self._confirmed]
        requested = {**self._recent, **{topic.meta.uid: _request(topic) for topic in unconfirmed}}
        crowded = _crowded(Counter(requested.values()) + self._restored, limit)
        for topic in unconfirmed:
            # Held ones stay held when the burst shrinks: sparing one topic of eleven must not delete the ten others.
            if topic.meta.uid not in self._recent and (_request(topic) in crowded or _was_held(topic)):
                self._held.add(topic.meta.uid)
        self.waiting = {
            topic.key: topic
            for topic in (*(topic for topic in unconfirmed if topic.meta.uid in self._held), *terminating)
            if topic.meta.uid not in self._confirmed
        }

    def held(self) -> Sequence[HeldDeletions]:
        """The deletions that wait now, by namespace."""
        found: defaultdict[str, list[KafkaTopic]] = defaultdict(list)
        for topic in self.waiting.values():
            found[topic.meta.namespace].append(topic)
        return [HeldDeletions(name, len(topics), confirmation(name, topics)) for name, topics in sorted(found.items())]

    def confirm(self, namespace: str) -> None:
        """A person confirmed all deletions of a namespace that wait now."""
        self._confirmed |= {topic.meta.uid for topic in self.waiting.values() if topic.meta.namespace == namespace}
        self._held -= self._confirmed
        self.waiting = {key: topic for key, topic in self.waiting.items() if key.namespace != namespace}

    def is_confirmed(self, topic: KafkaTopic) -> bool:
        """Whether a person confirmed this deletion."""
        return topic.meta.uid in self._confirmed

    def record_deletions(self, topics: Iterable[KafkaTopic]) -> None:
        """Count topics that are about to be deleted; confirmed ones do not count against the limit."""
        self._recent |= {topic.meta.uid: _request(topic) for topic in topics if not self.is_confirmed(topic)}
        requests = {*self._recent.values(), *self._restored}
        if requests:
            oldest = max(request.at for request in requests) - RATE_WINDOW
            self._recent = {uid: request for uid, request in self._recent.items() if request.at > oldest}
            self._restored = Counter({request: n for request, n in self._restored.items() if request.at > oldest})

    @property
    def status(self) -> DeletionsStatus | None:
        """`status.deletions` of the RackTopology; None where nothing waits and nothing was deleted lately."""
        recent: dict[str, RecentDeletions] = {}
        for request, count in sorted((Counter(self._recent.values()) + self._restored).items()):
            before = recent.get(request.namespace)
            total = count + (before.count if before else 0)
            recent[request.namespace] = RecentDeletions(request.namespace, request.at, total)
        if not recent and not self.waiting:
            return None
        latest = sorted(recent.values(), key=lambda one: (one.at, one.namespace))[-MAX_RECENT:]
        return DeletionsStatus(len(self.waiting), tuple(self.held()[:MAX_HELD]), tuple(latest))


def _crowded(requests: Mapping[_Request, int], limit: int) -> Collection[_Request]:
    """Those of the requests that are among more than `limit` of their namespace within a minute."""
    by_namespace: defaultdict[str, dict[datetime, int]] = defaultdict(dict)
    for request, count in requests.items():
        by_namespace[request.namespace][request.at] = count
    return {_Request(name, at) for name, counts in by_namespace.items() for at in bursts(counts, limit)}


def _request(topic: KafkaTopic) -> _Request:
    """The object's namespace and deletion timestamp. Raises ValueError without one."""
    requested = topic.meta.deletion_timestamp
    if requested is None:
        msg = f"{topic.key} is not being deleted"
        raise ValueError(msg)
    return _Request(topic.meta.namespace, requested)


def _was_held(topic: KafkaTopic) -> bool:
    stalled = find_condition(topic.status.conditions, STALLED)
    return stalled is not None and stalled.reason == Reason.DELETION_HELD
