"""Decides whether the deletion of a KafkaTopic may delete the topic in Kafka, and its data.

The decisions are pure. `DeletionGate` stores which deletions wait for a user's confirmation.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from rackspan.api.conditions import STALLED, reason_of
from rackspan.api.kafkatopic import DeletionPolicy
from rackspan.api.labels import CONFIRM_DELETE, CONFIRM_DELETIONS
from rackspan.api.racktopology import MAX_HELD, MAX_RECENT, DeletionsStatus, HeldDeletions, RecentDeletions
from rackspan.api.reasons import Reason
from rackspan.reconcile.runtime.writers import has_finalizer
from rackspan.reconcile.specs.ownership import in_another_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.api.racktopology import RackTopology
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.failures import Failure
    from rackspan.reconcile.ports import Terminating, TopicDescription


RATE_WINDOW = timedelta(minutes=1)
"""The period for which `spec.maxDeletionsPerMinute` is counted, in each namespace."""
RETAIN_LETS_GO = "set deletionPolicy: Retain to let the object go without deleting anything"
NAMESPACE_TIMEOUT = timedelta(minutes=10)
"""How long objects block the deletion of their namespace. Then they are released, and their topics kept in Kafka."""
_DIGEST = 32
"""The characters of a confirmation's digest: 128 bits, so that other names with the same digest cannot be found."""


class DeletionStep(Enum):
    """The next step of a deletion."""

    RELEASE = auto()
    """Remove the finalizer. The topic stays in Kafka, or is already deleted."""

    DELETE = auto()
    """Delete the topic in Kafka, then remove the finalizer."""

    HOLD = auto()
    """Keep the finalizer and write the reason into the status."""

    RETRY = auto()
    """Requeue the object, because it changed meanwhile."""


@dataclass(frozen=True, slots=True)
class DeletionDecision:
    """The next step, with the reason and message for the status or the Event."""

    step: DeletionStep
    message: str
    reason: Reason = Reason.DELETION_BLOCKED


def would_delete_topic(topic: KafkaTopic) -> bool:
    """Return whether deleting the object would delete its topic in Kafka, according to the object alone."""
    return has_finalizer(topic.meta) and retained_by_spec(topic, None) is None


def retained_by_spec(topic: KafkaTopic, refusal: Failure | None) -> DeletionDecision | None:
    """Return why the topic is kept according to the object's spec and status alone, or None if more must be checked.

    `refusal` says why the topology does not admit the object, or is None. An object that is not admitted is released
    immediately.
    """
    if topic.spec.deletion_policy is not DeletionPolicy.DELETE:
        return _kept(topic, "deletionPolicy is Retain")
    if not topic.status.topic_id:
        return DeletionDecision(
            DeletionStep.RELEASE, f"this object never had a topic in Kafka; a topic {topic.topic_name} is not touched"
        )
    if refusal is not None:
        return _kept(topic, refusal.message)
    if topic.status.adopted and topic.confirm_delete != topic.status.topic_id:
        return _kept(
            topic,
            f"it was there before this object, and no annotation {CONFIRM_DELETE}={topic.status.topic_id} says to "
            "delete it",
        )
    return None


def retained_by_teardown(
    topic: KafkaTopic, topology: RackTopology | None, terminating: Terminating
) -> DeletionDecision | None:
    """Return why the topic is kept if a CustomResourceDefinition or its RackTopology is being removed, else None."""
    if terminating.definitions:
        return _kept(topic, f"the definition {terminating.definitions[0]} is being deleted")
    if topology is None:
        return _kept(topic, f"there is no RackTopology {topic.topology}")
    return None


def _kept(topic: KafkaTopic, why: str) -> DeletionDecision:
    return DeletionDecision(DeletionStep.RELEASE, f"topic {topic.topic_name} is kept in Kafka: {why}")


def held_or_retained(
    topic: KafkaTopic, topology: RackTopology, terminating: Terminating, *, confirmed: bool, waits: bool
) -> DeletionDecision | None:
    """Return why the topic is kept, for now (HOLD) or permanently (RELEASE), or None if it may be deleted.

    `confirmed`: a user confirmed the deletion. `waits`: the deletion gate requires that confirmation.
    """
    namespace_ends = topic.meta.namespace in terminating.namespaces
    if namespace_ends and not confirmed and topology.meta.namespace == topic.meta.namespace:
        with_it = f"and RackTopology {topology.key} with it"
        return _kept(topic, f"namespace {topic.meta.namespace} is being deleted, {with_it}")
    if topic.meta.is_paused:
        paused = "paused: nothing is deleted before the annotation rackspan.dev/paused is gone"
        return DeletionDecision(DeletionStep.HOLD, topic.meta.unclear_pause or paused)
    if waits:
        burst = "many deletions were asked for at once"
        message = f"namespace {topic.meta.namespace} is being deleted" if namespace_ends else burst
        return DeletionDecision(
            DeletionStep.HOLD,
            f"{message}: topic {topic.topic_name} is deleted once a person confirms it on RackTopology {topology.key}, "
            "whose condition DeletionsHeld says how; deletionPolicy: Retain lets the object go and keeps the topic",
            Reason.DELETION_HELD,
        )
    return None


def released_after_timeout(
    topic: KafkaTopic, decision: DeletionDecision, terminating: Terminating, seen_for: timedelta
) -> DeletionDecision:
    """Return the decision, or RELEASE if its HOLD has kept the namespace terminating for `NAMESPACE_TIMEOUT`.

    `seen_for` is how long this operator has seen the namespace terminate: the API server may have another clock.
    """
    terminating_since, created = terminating.namespaces.get(topic.meta.namespace), topic.meta.creation_timestamp
    if (
        decision.step is not DeletionStep.HOLD
        or terminating_since is None
        or (created is not None and terminating_since < created)  # an earlier namespace of that name
        or seen_for < NAMESPACE_TIMEOUT
    ):
        return decision
    minutes = int(NAMESPACE_TIMEOUT.total_seconds()) // 60
    return _kept(
        topic,
        f"namespace {topic.meta.namespace} has been waiting for {minutes} minutes to be deleted, and this is still so: "
        f"{decision.message}",
    )


def bursts(requested: Mapping[datetime, int], limit: int) -> frozenset[datetime]:
    """Return the deletion times that are among more than `limit` within `RATE_WINDOW`.

    `requested` maps each deletion timestamp to the number of objects that have it.
    """
    times = sorted(requested)
    found: set[datetime] = set()
    first = total = 0
    for last, at in enumerate(times):
        total += requested[at]
        while at - times[first] >= RATE_WINDOW:
            total -= requested[times[first]]
            first += 1
        if total > limit:
            found.update(times[first : last + 1])
    return frozenset(found)


def confirmation(namespace: str, topics: Iterable[KafkaTopic]) -> str:
    """Return the confirmation of exactly these deletions: the namespace, and a digest of object names and topic ids."""
    lines = sorted(f"{topic.meta.name} {topic.status.topic_id}\n" for topic in topics)
    return f"{namespace}:{hashlib.sha256(''.join(lines).encode()).hexdigest()[:_DIGEST]}"


def given_confirmations(topology: RackTopology) -> Mapping[str, str] | None:
    """Return the confirmations in the annotation, by namespace, or None without the annotation."""
    text = topology.meta.annotations.get(CONFIRM_DELETIONS)
    if text is None:
        return None
    words = (word.strip() for word in text.split(","))
    return {word.partition(":")[0]: word for word in words if ":" in word}


def decide_deletion(topic: KafkaTopic, seen: TopicDescription | None, state: ClusterState) -> DeletionDecision:
    """Return DELETE only if the topic in Kafka is the recorded one, by topic id (KIP-516) and cluster id."""
    known_id = topic.status.topic_id
    if topic.status.cluster_id != state.cluster_id:
        return DeletionDecision(DeletionStep.HOLD, f"{in_another_cluster(topic, state.cluster_id)}; {RETAIN_LETS_GO}")
    if seen is None:
        return DeletionDecision(DeletionStep.RELEASE, f"topic {topic.topic_name} is already gone from Kafka")
    if seen.topic_id != known_id:
        return _kept(topic, f"it is {seen.topic_id}, recreated by someone else; this object's topic was {known_id}")
    return DeletionDecision(DeletionStep.DELETE, f"topic {topic.topic_name} ({known_id}) is deleted from Kafka")


def agreed(topic: KafkaTopic, first: DeletionDecision, second: DeletionDecision, *, gone: bool) -> DeletionDecision:
    """Return what two reads of a topic allow. Any broker may have responded to either read, and one may lag.

    `gone`: the second read found no topic of that name. Return RETRY if the reads contradict each other. If the second
    read found another topic of that name, the object can be released, because nothing is deleted.
    """
    contradicts = gone if first.step is DeletionStep.DELETE else second.step is DeletionStep.DELETE
    if contradicts and second.step is not DeletionStep.HOLD:
        return DeletionDecision(
            DeletionStep.RETRY, f"Kafka's brokers do not show the same of topic {topic.topic_name} yet"
        )
    return second


class _Request(NamedTuple):
    """The time of a deletion request in a namespace. The API server stores the time in whole seconds."""

    namespace: str
    at: datetime


class DeletionGate:
    """Lets a few deletions per minute and namespace pass. More deletions need the confirmation of a user.

    The whole state can be rebuilt from objects: requests from deletion timestamps, waiting requests from their status,
    recent deletions from the RackTopology's status. So a restart neither resets the rate nor releases waiting
    deletions. `clock` returns monotonic seconds. It decides how long a deletion is recent, because the clocks of API
    servers, which set deletion timestamps, may be wrong and may differ.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.waiting: Mapping[ObjectKey, KafkaTopic] = {}
        """The objects that need confirmation, as of the last review."""
        self._held: set[str] = set()
        self._confirmed: set[str] = set()
        self._recent: dict[str, tuple[_Request, float]] = {}
        """The recent deletions carried out without confirmation, by uid, and when they were recorded."""
        self._restored: Counter[_Request] = Counter()
        """The counts of such deletions before the operator's restart. Their uids are not known any more."""
        self._restored_at = 0.0
        self._is_restored = False

    def restore(self, status: DeletionsStatus | None) -> None:
        """Load the recent deletions from the RackTopology's status. Only the first call has an effect."""
        if not self._is_restored and status is not None:
            self._restored.update({_Request(recent.namespace, recent.at): recent.count for recent in status.recent})
            self._restored_at = self._clock()
        self._is_restored = True

    def review(self, topics: Sequence[KafkaTopic], terminating: Collection[str], limit: int) -> None:
        """Update `waiting` from all objects whose topics would be deleted with them now.

        Objects in `terminating` namespaces wait, with or without a deletion timestamp. All other objects have one.
        `limit` is the number of deletions per minute and namespace that pass without confirmation.
        """
        known = {topic.meta.uid for topic in topics}
        self._held &= known
        self._confirmed &= known
        self._forget(known)
        decided = self._confirmed | self._recent.keys()
        pending = [topic for topic in topics if topic.meta.is_deleting and topic.meta.uid not in decided]
        # Held deletions stay held when a burst shrinks: sparing one topic of eleven must not delete the other ten.
        self._held |= {
            topic.meta.uid for topic in pending if reason_of(topic.status.conditions, STALLED) == Reason.DELETION_HELD
        }
        judged = {topic.meta.uid: _request(topic) for topic in pending if topic.meta.uid not in self._held}
        last = dict(sorted(judged.values()))
        crowded = _crowded(Counter(map(_request, pending)), self._carried_out, last, limit)
        self._held |= {uid for uid, request in judged.items() if request in crowded}
        self.waiting = {
            topic.key: topic
            for topic in topics
            if topic.meta.uid not in self._confirmed
            and (topic.meta.uid in self._held or topic.meta.namespace in terminating)
        }

    def held(self) -> Sequence[HeldDeletions]:
        """Return the deletions that wait now, by namespace."""
        found: defaultdict[str, list[KafkaTopic]] = defaultdict(list)
        for topic in self.waiting.values():
            found[topic.meta.namespace].append(topic)
        return [HeldDeletions(name, len(topics), confirmation(name, topics)) for name, topics in sorted(found.items())]

    def confirm(self, namespace: str) -> None:
        """Mark all deletions of a namespace that wait now as confirmed by a user."""
        self._confirmed |= {topic.meta.uid for topic in self.waiting.values() if topic.meta.namespace == namespace}
        self._held -= self._confirmed
        self.waiting = {key: topic for key, topic in self.waiting.items() if key.namespace != namespace}

    def is_confirmed(self, topic: KafkaTopic) -> bool:
        """Return whether a user confirmed this deletion."""
        return topic.meta.uid in self._confirmed

    def record_deletions(self, topics: Iterable[KafkaTopic]) -> None:
        """Count topics that are about to be deleted. Confirmed deletions do not count against the limit."""
        now = self._clock()
        self._recent |= {topic.meta.uid: (_request(topic), now) for topic in topics if not self.is_confirmed(topic)}

    def _forget(self, known: Collection[str]) -> None:
        """Forget deletions recorded more than a minute ago. Keep those of `known` objects, which may be retried."""
        oldest = self._clock() - RATE_WINDOW.total_seconds()
        self._recent = {uid: one for uid, one in self._recent.items() if uid in known or one[1] > oldest}
        if self._restored_at <= oldest:
            self._restored.clear()

    @property
    def _carried_out(self) -> Counter[_Request]:
        return Counter(request for request, _ in self._recent.values()) + self._restored

    @property
    def status(self) -> DeletionsStatus | None:
        """`status.deletions` of the RackTopology, or None if nothing waits and nothing was deleted lately."""
        recent: dict[str, RecentDeletions] = {}
        for request, count in sorted(self._carried_out.items()):
            before = recent.get(request.namespace)
            total = count + (before.count if before else 0)
            recent[request.namespace] = RecentDeletions(request.namespace, request.at, total)
        if not recent and not self.waiting:
            return None
        latest = sorted(recent.values(), key=lambda one: (one.at, one.namespace))[-MAX_RECENT:]
        return DeletionsStatus(len(self.waiting), tuple(self.held()[:MAX_HELD]), tuple(latest))


def _crowded(
    pending: Mapping[_Request, int], carried_out: Mapping[_Request, int], last: Mapping[str, datetime], limit: int
) -> Collection[_Request]:
    """Return the requests that are among more than `limit` of their namespace within a minute.

    `last` has the time of each namespace's last request to judge. A deletion that was carried out, and seems to be
    requested later, counts as requested then: the clock of its API server was ahead.
    """
    by_namespace: defaultdict[str, Counter[datetime]] = defaultdict(Counter)
    for (namespace, at), count in pending.items():
        by_namespace[namespace][at] += count
    for (namespace, at), count in carried_out.items():
        by_namespace[namespace][min(at, last.get(namespace, at))] += count
    return {_Request(name, at) for name, counts in by_namespace.items() for at in bursts(counts, limit)}


def _request(topic: KafkaTopic) -> _Request:
    """Return the object's namespace and deletion timestamp. Raises ValueError if it has none."""
    requested = topic.meta.deletion_timestamp
    if requested is None:
        raise ValueError(f"{topic.key} is not being deleted")
    return _Request(topic.meta.namespace, requested)
