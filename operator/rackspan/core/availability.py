"""Whether a broker can be taken away for a while: what its partitions' in-sync replicas are without it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rackspan.core.durability import effective_min_insync
from rackspan.core.partitions import InSync


@dataclass(frozen=True, slots=True)
class IsrShortfall:
    """A partition that has too few in-sync replicas without a broker; `needed` is None where that is not known.

    It is `lasting` where all of its replicas are in sync: there is no spare one, and no waiting brings it.
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
    Name the partitions on `broker` that would be below min.insync.replicas, or below one replica, without it.

    `min_insync` has each topic's min.insync.replicas; a topic that is not in it cannot be judged, and is named. So is a
    partition that is below it already, whether the broker is in sync or not.
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
    """The partitions on `broker` whose ISR is without it."""
    return [one for one in partitions if broker in one.replicas and broker not in one.in_sync]
