"""
Replication throttles (KIP-73) of what is being copied: on brokers and topics that take part, and on no others.

A throttle has two halves. Brokers have rates, in bytes per second, and topics name the replicas that these count for,
as `partition:broker,...`. Kafka means to hold back only followers that are not in the ISR. But a follower forgets that
it has caught up when its partition gets a new leader epoch, as when an old replica goes: then one that is in the ISR,
and that writes with `acks=all` wait for, is held back, too. So a replica is listed until it is in sync, and no longer.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from rackspan.core.partitions import Setting, SettingKind, TopicPartition
from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Observed, of_change

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
ALL_REPLICAS = "*"
_LONGEST = 30_000
"""Characters of a list. Kafka refuses configs of more than 32,767 bytes."""


def lists_only(value: str, known: Iterable[str]) -> bool:
    """Whether a setting is one of the `known` values, or lists nobody whom they do not list."""
    return {name for one in known for name in one.split(",")}.issuperset(value.split(","))


class ThrottledReplicas:
    """The replicas of a plan that throttles count for, by topic: followers until they are in sync."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._changes: dict[str, list[Change]] = defaultdict(list)
        self._behind: dict[TopicPartition, frozenset[int]] = {}
        """New replicas that were not in sync when their partition was looked at last."""
        for change in changes:
            if change.copied:
                self._changes[change.topic].append(change)
                self._behind[of_change(change)] = _new(change)
        self._leaders: dict[str, str] = {}
        self._followers: dict[str, str] = {}

    def learn(self, some: Iterable[Change], observed: Observed) -> None:
        """Take note of which new replicas of partitions that are looked at are in sync now."""
        for change in some:
            at = of_change(change)
            state = observed.partitions.get(at)
            if state is not None and at in self._behind:
                behind = _new(change) - state.in_sync
                if behind != self._behind[at]:
                    self._behind[at] = behind
                    self._followers.pop(at.topic, None)

    def leaders(self, topic: str) -> str:
        """Those that leaders are held back for, as `partition:broker,...`: the same from beginning to end."""
        if topic not in self._leaders:
            listed = (
                f"{change.partition}:{broker}"
                for change in self._changes.get(topic, ())
                for broker in dict.fromkeys((*change.before, *change.replicas))
            )
            self._leaders[topic] = ",".join(listed)
        return self._leaders[topic]

    def followers(self, topic: str) -> str:
        """Those that are held back as followers, as `partition:broker,...`; empty once all are in sync."""
        if topic not in self._followers:
            listed = (
                f"{change.partition}:{broker}"
                for change in self._changes.get(topic, ())
                for broker in change.replicas
                if broker in self._behind[of_change(change)]
            )
            self._followers[topic] = ",".join(listed)
        return self._followers[topic]

    def is_empty(self, setting: Setting) -> bool:
        """Whether a setting would list nobody any more."""
        return setting.key == FOLLOWERS and not self.followers(setting.name)


def wanted_throttles(
    replicas: ThrottledReplicas,
    copying: Mapping[TopicPartition, frozenset[int]],
    throttled: Collection[str],
    observed: Observed,
    rate: int,
    before: Mapping[Setting, str | None],
) -> dict[Setting, str]:
    """
    Give the throttles that the copies under way need: `rate` bytes per second on each broker that gives or takes.

    `throttled` are topics with throttles, whose lists are kept up to date. `before` has what was set by others: their
    replicas stay throttled too. Brokers that are away have no part in a copy, nor can they be told of a throttle.
    """
    wanted: dict[Setting, str] = {}
    brokers: set[int] = set()
    for at, adding in copying.items():
        state = observed.partitions.get(at)
        brokers |= adding | frozenset(state.replicas if state is not None else ())
    for broker in sorted(brokers & observed.online):
        wanted |= {Setting(SettingKind.BROKER, str(broker), key): str(rate) for key in RATES}
    for topic in sorted({at.topic for at in copying}.union(throttled)):
        for key, text in ((LEADERS, replicas.leaders(topic)), (FOLLOWERS, replicas.followers(topic))):
            if text:
                setting = Setting(SettingKind.TOPIC, topic, key)
                wanted[setting] = _joined(text, before.get(setting))
    return wanted


def _new(change: Change) -> frozenset[int]:
    return frozenset(change.replicas).difference(change.before)


def _joined(text: str, before: str | None) -> str:
    if before:
        others = [name for name in before.split(",") if name]
        if ALL_REPLICAS in others:
            return ALL_REPLICAS
        text = ",".join(dict.fromkeys((*others, *filter(None, text.split(",")))))
    return text if len(text) <= _LONGEST else ALL_REPLICAS
