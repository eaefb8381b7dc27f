"""
Replication throttles (KIP-73) of what is being copied: on brokers and topics that take part, and on no others.

A throttle has two halves. Brokers have rates, in bytes per second, and topics name the replicas that these count for,
as `partition:broker,...`. Kafka means to hold back only followers that are not in the ISR. But a follower forgets that
it has caught up when its partition gets a new leader epoch, as when an old replica goes: then one that is in the ISR,
and that writes with `acks=all` wait for, is held back, too. So a replica is listed until it is in sync, and no longer.

Several may set throttles in one cluster, and Kafka is all that they share. Nobody replaces what somebody else has set:
a rate is set only where there is none, and names are put on a list and taken off it by the controller. So nothing has
to be given back, and only what was set here is deleted.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rackspan.core.partitions import (
    ListChange,
    ListOperation,
    Setting,
    SettingChange,
    SettingKind,
    TopicPartition,
)
from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Observed, of_change

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
ALL_REPLICAS = "*"
_LONGEST = 30_000
"""Characters of a list. Kafka refuses configs of more than 32,767 bytes."""


@dataclass(frozen=True, slots=True)
class SetThrottle:
    """
    What there may be of ours at a setting: rates, of which the last one was asked for last, or names of a list.

    `before` is what an older version has replaced. It is given back in the end; this version replaces nothing.
    """

    before: str | None
    ours: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of a list that are ours."""
        return frozenset(_names(",".join(self.ours))).difference(_names(self.before))

    def has_others(self, setting: Setting, seen: str | None) -> bool:
        """Whether somebody else has set what is seen there, or a part of it."""
        if setting.key in RATES:
            return seen not in (None, *self.ours)
        return not self.names.issuperset(_names(seen))

    def gives_way(self, setting: Setting, wanted: str, seen: str | None) -> bool:
        """Whether what others have set there cannot be together with `wanted`. All replicas are beside no name."""
        return (setting.key in RATES or ALL_REPLICAS in (wanted, seen)) and self.has_others(setting, seen)

    def to_set(self, setting: Setting, wanted: str, seen: str | None) -> "SetThrottle":
        """What to record before `wanted` is set where that is seen."""
        if self.gives_way(setting, wanted, seen):
            return self
        if setting.key not in RATES:
            return self._listing(self.names.union(_missing(wanted, seen)))
        if wanted in self.ours[-1:]:
            return self
        # A broker that is behind reports an earlier rate, but none that is earlier than one it has reported.
        since = self.ours if seen is None else self.ours[self.ours.index(seen) :]
        return SetThrottle(self.before, (*(one for one in since if one != wanted), wanted))

    def changes(self, setting: Setting, wanted: str, seen: str | None) -> tuple[SettingChange, ...]:
        """What to do, one after the other, so that `wanted` is there, besides what others have set."""
        if setting.key in RATES or ALL_REPLICAS in (wanted, seen):
            return () if seen == wanted or self.gives_way(setting, wanted, seen) else (wanted,)
        surplus = self.names.difference(_names(wanted))
        return (
            *_listed(ListOperation.SUBTRACT, sorted(surplus)),
            *_listed(ListOperation.APPEND, _missing(wanted, seen)),
        )

    def once_set(self, setting: Setting, wanted: str) -> "SetThrottle":
        """What there may be of ours once Kafka has made all changes."""
        return self if setting.key in RATES else self._listing(self.names.intersection(_names(wanted)))

    def taken_off(self, setting: Setting, seen: str | None) -> tuple[SettingChange, ...]:
        """What to do before it is cleared: a list that others are on loses our names."""
        is_shared = setting.key not in RATES and self.has_others(setting, seen)
        return _listed(ListOperation.SUBTRACT, sorted(self.names)) if is_shared else ()

    def is_all_there_is(self, setting: Setting, seen: str | None) -> bool:
        """Whether nobody else has set anything. A broker that has just started may report what was there before."""
        return seen == self.before or not self.has_others(setting, seen)

    def _listing(self, names: frozenset[str]) -> "SetThrottle":
        if self.names == names:
            return self
        return SetThrottle(self.before, (",".join(sorted(names)),) if names else ())


NOTHING_SET = SetThrottle(None, ())


class ThrottledReplicas:
    """The replicas of a plan that throttles count for, by topic: followers until they are in sync."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._changes: dict[str, list[Change]] = defaultdict(list)
        self._behind: dict[TopicPartition, frozenset[int]] = {}
        """New replicas that were not in sync when their partition was looked at last."""
        for change in changes:
            if change.copied:
                self._changes[change.topic].append(change)
                self._behind[of_change(change)] = change.added
        self._leaders: dict[str, str] = {}
        self._followers: dict[str, str] = {}
        self._moving: frozenset[TopicPartition] = frozenset()

    def learn(self, some: Iterable[Change], observed: Observed) -> None:
        """Take note of which new replicas of partitions that are looked at are in sync now."""
        for change in some:
            at = of_change(change)
            state = observed.partitions.get(at)
            if state is not None and at in self._behind:
                behind = change.added - state.in_sync
                if behind != self._behind[at]:
                    self._behind[at] = behind
                    self._followers.pop(at.topic, None)

    def move(self, some: Collection[TopicPartition]) -> None:
        """Take note of which partitions move now: a list has only these where it is too long with all of a topic."""
        self._moving = frozenset(some)

    def leaders(self, topic: str) -> str:
        """Those that leaders are held back for, as `partition:broker,...`: the same to the end if it fits."""
        if topic not in self._leaders:
            listed = (
                f"{change.partition}:{broker}"
                for change in self._changes.get(topic, ())
                for broker in dict.fromkeys((*change.before, *change.replicas))
            )
            self._leaders[topic] = ",".join(listed)
        return self._fitting(topic, self._leaders[topic])

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
        return self._fitting(topic, self._followers[topic])

    def is_empty(self, setting: Setting) -> bool:
        """Whether a setting would list nobody any more."""
        return setting.key == FOLLOWERS and not self.followers(setting.name)

    def _fitting(self, topic: str, text: str) -> str:
        """A list that Kafka takes."""
        if len(text) <= _LONGEST:
            return text
        names = ((TopicPartition(topic, int(name.partition(":")[0])), name) for name in _names(text))
        text = ",".join(name for at, name in names if at in self._moving)
        return text if len(text) <= _LONGEST else ALL_REPLICAS


def wanted_throttles(
    replicas: ThrottledReplicas,
    copying: Mapping[TopicPartition, frozenset[int]],
    throttled: Collection[str],
    observed: Observed,
    rate: int,
) -> dict[Setting, str]:
    """
    Give the throttles that the copies under way need: `rate` bytes per second on each broker that gives or takes.

    `throttled` are topics with throttles, whose lists are kept up to date. Brokers that are away have no part in a
    copy, and no throttle can be set on them.
    """
    wanted: dict[Setting, str] = {}
    brokers: set[int] = set()
    for at, adding in copying.items():
        state = observed.partitions.get(at)
        brokers |= adding | frozenset(state.replicas if state is not None else ())
    for broker in sorted(brokers & observed.online):
        wanted |= {Setting(SettingKind.BROKER, str(broker), key): str(rate) for key in RATES}
    return wanted | wanted_lists(replicas, {at.topic for at in copying}.union(throttled))


def wanted_lists(replicas: ThrottledReplicas, topics: Collection[str]) -> dict[Setting, str]:
    """Give the lists of replicas that these topics need, none where nobody would be on it."""
    texts = {
        Setting(SettingKind.TOPIC, topic, key): text
        for topic in sorted(topics)
        for key, text in ((LEADERS, replicas.leaders(topic)), (FOLLOWERS, replicas.followers(topic)))
    }
    return {one: text for one, text in texts.items() if text}


def _names(text: str | None) -> Sequence[str]:
    return [name for name in (text or "").split(",") if name]


def _missing(wanted: str, seen: str | None) -> Sequence[str]:
    there = set(_names(seen))
    return [name for name in _names(wanted) if name not in there]


def _listed(operation: ListOperation, names: Sequence[str]) -> tuple[SettingChange, ...]:
    return (ListChange(operation, ",".join(names)),) if names else ()
