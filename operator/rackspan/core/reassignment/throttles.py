"""Replication throttles (KIP-73) of copies, only on the brokers and topics that take part.

A throttle has two halves. Brokers have rates, in bytes per second. Topics list the replicas that the rates apply to, as
`partition:broker,...`. Kafka intends to throttle only followers that are not in the ISR. But a follower loses the
record that it has caught up when its partition gets a new leader epoch, for example when an old replica is removed.
Then Kafka also throttles a follower in the ISR, which writes with `acks=all` wait for. So a replica is listed only
until it is in sync.

Several clients may set throttles in one cluster, and they share nothing but Kafka. The operator never replaces values
of other clients: it sets a rate only if there is none, and the controller appends names to a list and removes them. So
the operator has nothing to restore, and deletes only what it has set.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
"""The maximum length of a list in characters. Kafka refuses configs of more than 32,767 bytes."""


@dataclass(frozen=True, slots=True)
class SetThrottle:
    """The values that the operator may have set: rates, in the order of the requests, or names of a list.

    `before` is the value that an older version replaced. It is restored in the end; this version replaces nothing.
    """

    before: str | None
    ours: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of a list that the operator has added."""
        return frozenset(_names(",".join(self.ours))).difference(_names(self.before))

    def has_others(self, setting: Setting, seen: str | None) -> bool:
        """Return whether another client has set the observed value or a part of it."""
        if setting.key in RATES:
            return seen not in (None, *self.ours)
        return not self.names.issuperset(_names(seen))

    def gives_way(self, setting: Setting, wanted: str, seen: str | None) -> bool:
        """Return whether another client's value excludes `wanted`: a rate is one value, and `*` allows no names."""
        return (setting.key in RATES or ALL_REPLICAS in (wanted, seen)) and self.has_others(setting, seen)

    def to_set(self, setting: Setting, wanted: str, seen: str | None) -> "SetThrottle":
        """Return what to record before `wanted` is set, if the observed value is `seen`."""
        if self.gives_way(setting, wanted, seen):
            return self
        if setting.key not in RATES:
            return self._listing(self.names.union(_missing(wanted, seen)))
        if wanted in self.ours[-1:]:
            return self
        # A broker that lags behind reports an earlier rate, but never an earlier one than it reported before.
        since = self.ours if seen is None else self.ours[self.ours.index(seen) :]
        return SetThrottle(self.before, (*(one for one in since if one != wanted), wanted))

    def changes(self, setting: Setting, wanted: str, seen: str | None) -> tuple[SettingChange, ...]:
        """Return the changes, in their order, that set `wanted` and keep the values of other clients."""
        if setting.key in RATES or ALL_REPLICAS in (wanted, seen):
            return () if seen == wanted or self.gives_way(setting, wanted, seen) else (wanted,)
        surplus = self.names.difference(_names(wanted))
        return (
            *_listed(ListOperation.SUBTRACT, sorted(surplus)),
            *_listed(ListOperation.APPEND, _missing(wanted, seen)),
        )

    def once_set(self, setting: Setting, wanted: str) -> "SetThrottle":
        """Return the values that the operator may have set once Kafka has made all changes."""
        return self if setting.key in RATES else self._listing(self.names.intersection(_names(wanted)))

    def taken_off(self, setting: Setting, seen: str | None) -> tuple[SettingChange, ...]:
        """Return the changes before the setting is cleared: remove our names from a list with names of others."""
        is_shared = setting.key not in RATES and self.has_others(setting, seen)
        return _listed(ListOperation.SUBTRACT, sorted(self.names)) if is_shared else ()

    def is_all_there_is(self, setting: Setting, seen: str | None) -> bool:
        """Return whether no other client has set anything. A broker that has just started may report `before`."""
        return seen == self.before or not self.has_others(setting, seen)

    def _listing(self, names: frozenset[str]) -> "SetThrottle":
        if self.names == names:
            return self
        return SetThrottle(self.before, (",".join(sorted(names)),) if names else ())


NOTHING_SET = SetThrottle(None, ())


class ThrottledReplicas:
    """The replicas of a plan that throttles apply to, by topic: followers until they are in sync."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._changes: dict[str, list[Change]] = defaultdict(list)
        self._behind: dict[TopicPartition, frozenset[int]] = {}
        """New replicas that were not in sync at the last check of their partition."""
        for change in changes:
            if change.copied:
                self._changes[change.topic].append(change)
                self._behind[of_change(change)] = change.added
        self._leaders: dict[str, str] = {}
        self._followers: dict[str, str] = {}
        self._moving: frozenset[TopicPartition] = frozenset()

    def learn(self, some: Iterable[Change], observed: Observed) -> None:
        """Record which new replicas of the checked partitions are in sync now."""
        for change in some:
            at = of_change(change)
            state = observed.partitions.get(at)
            if state is not None and at in self._behind:
                behind = change.added - state.in_sync
                if behind != self._behind[at]:
                    self._behind[at] = behind
                    self._followers.pop(at.topic, None)

    def move(self, some: Collection[TopicPartition]) -> None:
        """Record which partitions move now. If a topic's list is too long, it has only these partitions."""
        self._moving = frozenset(some)

    def leaders(self, topic: str) -> str:
        """Return the replicas that leaders are throttled for, as `partition:broker,...`: constant if the list fits."""
        return self._list(topic, self._leaders, lambda change: dict.fromkeys((*change.before, *change.replicas)))

    def followers(self, topic: str) -> str:
        """Return the replicas throttled as followers, as `partition:broker,...`; empty once all are in sync."""

        def behind(change: Change) -> Iterable[int]:
            return filter(self._behind[of_change(change)].__contains__, change.replicas)

        return self._list(topic, self._followers, behind)

    def is_empty(self, setting: Setting) -> bool:
        """Return whether a setting would list no replica any more."""
        return setting.key == FOLLOWERS and not self.followers(setting.name)

    def _list(self, topic: str, lists: dict[str, str], brokers: Callable[[Change], Iterable[int]]) -> str:
        """Return the list, kept in `lists`. If it is too long for Kafka, return what moves now, or else `*`."""
        changes = self._changes.get(topic, ())
        if topic not in lists:
            lists[topic] = _replicas(changes, brokers)
        text = lists[topic]
        if len(text) > _LONGEST:
            text = _replicas((change for change in changes if of_change(change) in self._moving), brokers)
        return text if len(text) <= _LONGEST else ALL_REPLICAS


def _replicas(changes: Iterable[Change], brokers: Callable[[Change], Iterable[int]]) -> str:
    return ",".join(f"{change.partition}:{broker}" for change in changes for broker in brokers(change))


def wanted_throttles(
    replicas: ThrottledReplicas,
    copying: Mapping[TopicPartition, frozenset[int]],
    throttled: Collection[str],
    observed: Observed,
    rate: int,
) -> dict[Setting, str]:
    """Return the throttles that the copies under way need: `rate` bytes per second on each sending or receiving broker.

    `throttled` are topics with throttles, whose lists are kept up to date. Offline brokers take no part in a copy, and
    no throttle can be set on them.
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
    """Return the lists of replicas that these topics need, without empty lists."""
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
