"""
Replication throttles (KIP-73) of what is being copied: on brokers and topics that take part, and on no others.

A throttle has two halves. Brokers have rates, in bytes per second, and topics name the replicas that these count for,
as `partition:broker,...`. Kafka holds back only followers that are not in the ISR.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from rackspan.core.planning.changes import Change
from rackspan.core.reassignment.model import Observed, TopicPartition, of_change

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
ALL_REPLICAS = "*"
_LONGEST = 30_000
"""Characters of a list. Kafka refuses configs of more than 32,767 bytes."""


class SettingKind(StrEnum):
    """What a dynamic config belongs to."""

    BROKER = "broker"
    TOPIC = "topic"


class Setting(NamedTuple):
    """A dynamic config: of a broker by its id, or of a topic by its name."""

    kind: SettingKind
    name: str
    key: str


def wanted_throttles(
    changes: Iterable[Change],
    copying: Mapping[TopicPartition, frozenset[int]],
    observed: Observed,
    rate: int,
    before: Mapping[Setting, str | None],
) -> dict[Setting, str]:
    """
    Give the throttles that the copies under way need: `rate` bytes per second on each broker that gives or takes.

    `changes` are all of the plan's, so that a topic's lists stay the same while its partitions take turns. `before`
    has what was set by others: their replicas stay throttled too. Brokers that are away have no part in a copy, nor can
    they be told of a throttle.
    """
    topics = {at.topic for at in copying}
    wanted: dict[Setting, str] = {}
    brokers: set[int] = set()
    for at, adding in copying.items():
        state = observed.partitions.get(at)
        brokers |= adding | frozenset(state.replicas if state is not None else ())
    for broker in sorted(brokers & observed.online):
        wanted |= {Setting(SettingKind.BROKER, str(broker), key): str(rate) for key in RATES}
    replicas: dict[str, tuple[list[str], list[str]]] = {topic: ([], []) for topic in sorted(topics)}
    for change in changes:
        if change.topic not in topics or not change.copied:
            continue
        leaders, followers = replicas[change.topic]
        partition = of_change(change).partition
        leaders += [f"{partition}:{broker}" for broker in dict.fromkeys((*change.before, *change.replicas))]
        followers += [f"{partition}:{broker}" for broker in change.replicas if broker not in change.before]
    for topic, lists in replicas.items():
        for key, names in zip((LEADERS, FOLLOWERS), lists, strict=True):
            setting = Setting(SettingKind.TOPIC, topic, key)
            wanted[setting] = _joined(names, before.get(setting))
    return wanted


def _joined(names: list[str], before: str | None) -> str:
    others = [name for name in (before or "").split(",") if name]
    if ALL_REPLICAS in others:
        return ALL_REPLICAS
    text = ",".join(dict.fromkeys((*others, *names)))
    return text if len(text) <= _LONGEST else ALL_REPLICAS
