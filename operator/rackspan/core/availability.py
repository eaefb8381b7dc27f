"""Whether a broker can be taken offline for a while: the in-sync replicas of its partitions without that broker."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rackspan.core.durability import effective_min_insync
from rackspan.core.partitions import InSync


@dataclass(frozen=True, slots=True)
class IsrShortfall:
    """A partition that has too few in-sync replicas without a broker; `needed` is None if it is not known.

    The shortfall is `lasting` if all replicas are in sync: no other replica can join the ISR, so waiting does not help.
    """

    topic: str
    partition: int
    left: int
    needed: int | None
    lasting: bool


def shortfalls_without(
    broker: int, partitions: Iterable[InSync], min_insync: Mapping[str, int]
) -> tuple[IsrShortfall, ...]:
    """
    Return the partitions on `broker` that would have fewer than min.insync.replicas, or no replica, in sync without it.

    `min_insync` has the min.insync.replicas of each topic. Partitions of a topic that is missing there cannot be judged
    and are returned too. So are partitions that are below it already, whether the broker is in sync or not.
    """
    found = []
    for one in partitions:
        if broker not in one.replicas:
            continue
        left, given = len(one.in_sync - {broker}), min_insync.get(one.topic)
        needed = None if given is None else int(effective_min_insync(given, len(one.replicas)))
        if needed is None or left < needed:
            lasting = one.in_sync >= set(one.replicas) and (needed is not None or not left)
            found.append(IsrShortfall(one.topic, one.partition, left, needed, lasting))
    return tuple(found)


def lagging(broker: int, partitions: Iterable[InSync]) -> Collection[InSync]:
    """Return the partitions on `broker` whose ISR does not contain the broker."""
    return [one for one in partitions if broker in one.replicas and broker not in one.in_sync]
