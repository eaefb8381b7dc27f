"""A model of one Kafka partition without unclean leader election, with and without eligible leader replicas (KIP-966).

The rules are those of the controller of Kafka 4.1 and later with `unclean.leader.election.enable=false`. Sets of
replicas are bits, in the order of the assignment. The model follows one acknowledged write. A broker that stops
uncleanly loses the write, which is the worst effect of an unclean stop.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

NOBODY = -1


class Partition(NamedTuple):
    """What the controller knows, which brokers are up, and which of the others stopped uncleanly."""

    up: int
    unclean: int
    isr: int
    elr: int
    last_known: int
    leader: int


class Traced(NamedTuple):
    """A partition after an acknowledged write, and the brokers that have the write."""

    partition: Partition
    holders: int

    @property
    def lost(self) -> bool:
        """Whether the partition has a leader that does not have the write."""
        leader = self.partition.leader
        return leader != NOBODY and not self.holders >> leader & 1


@dataclass(frozen=True)
class Kafka:
    """The rules for a partition of `replicas` replicas. `min_insync` counts as at most that number (KAFKA-15583)."""

    replicas: int
    min_insync: int
    elr: bool

    @property
    def needed(self) -> int:
        return min(self.min_insync, self.replicas)

    @property
    def start(self) -> Partition:
        everybody = (1 << self.replicas) - 1
        return Partition(everybody, 0, everybody, 0, NOBODY, 0)

    def accepts(self, one: Partition) -> bool:
        """Return whether the partition accepts a produce request with `acks=all`."""
        return one.leader != NOBODY and one.isr.bit_count() >= self.needed

    def stopped(self, one: Partition, broker: int, *, unclean: bool = False) -> Partition:
        """Return the partition after a broker has stopped, without the broker in the ISR."""
        one = one._replace(up=one.up & ~(1 << broker), unclean=one.unclean | unclean << broker)
        return self._changed(one, one.isr & ~(1 << broker)) if one.isr >> broker & 1 else one

    def returned(self, one: Partition, broker: int) -> Partition:
        """Return the partition with a broker back. With the ELR, the controller drops it if it stopped uncleanly."""
        bit = 1 << broker
        if self.elr and one.unclean & bit and (one.isr | one.elr) & bit:
            one = self._changed(one, one.isr & ~bit, bit)
        one = one._replace(up=one.up | bit, unclean=one.unclean & ~bit)
        return one if one.leader != NOBODY else self._changed(one, one.isr)

    def caught_up(self, one: Partition, broker: int) -> Partition:
        return self._changed(one, one.isr | 1 << broker)

    def fell_behind(self, one: Partition, broker: int) -> Partition:
        return self._changed(one, one.isr & ~(1 << broker))

    def forgotten(self, one: Partition) -> Partition:
        """Return the partition after any change of `min.insync.replicas`: the controller empties the ELR."""
        return one._replace(elr=0, last_known=NOBODY)

    def next(self, one: Partition) -> Iterator[tuple[str, int, Partition]]:
        """Yield every possible event: its name, its broker, and the partition after it."""
        for broker in range(self.replicas):
            if not one.up >> broker & 1:
                yield "returns", broker, self.returned(one, broker)
                continue
            yield "stops", broker, self.stopped(one, broker)
            yield "breaks", broker, self.stopped(one, broker, unclean=True)
            if one.leader in (NOBODY, broker):
                continue
            if one.isr >> broker & 1:
                yield "falls behind", broker, self.fell_behind(one, broker)
            else:
                yield "catches up", broker, self.caught_up(one, broker)

    def reachable(self) -> set[Partition]:
        """Return every state after any sequence of events of any length."""
        found, new = {self.start}, [self.start]
        while new:
            for _, _, after in self.next(new.pop()):
                if after not in found:
                    found.add(after)
                    new.append(after)
        return found

    def traced(self, domain: int, *, covered: bool = False) -> Iterator[Traced]:
        """Yield every state after an acknowledged write if only the brokers of a domain stop uncleanly.

        `covered`: these stop uncleanly only while other brokers are in the ISR.
        """
        new = [Traced(one, one.isr) for one in self.reachable() if self.accepts(one)]
        found = set(new)
        while new:
            one = new.pop()
            yield one
            for event, broker, after in self.next(one.partition):
                bit, holders = 1 << broker, one.holders
                if event == "breaks":
                    if not domain & bit or (covered and not one.partition.isr & ~domain):
                        continue
                    holders &= ~bit
                elif event == "catches up":
                    holders = holders | bit if holders >> one.partition.leader & 1 else holders & ~bit
                follows = Traced(after, holders)
                if follows not in found and not one.lost:
                    found.add(follows)
                    new.append(follows)

    def _changed(self, one: Partition, isr: int, gone: int = 0) -> Partition:
        """Change the ISR: update first the ELR, then the leader, then the last known leader."""
        elr = (one.elr | one.isr) & ~isr & ~gone if self.elr and isr.bit_count() < self.needed else 0
        leader, last_known = NOBODY, one.last_known
        if able := one.up & (isr or elr):
            leader = one.leader if one.leader != NOBODY and able >> one.leader & 1 else _first(able)
            if not isr:
                isr, elr = 1 << leader, elr & ~(1 << leader)
        elif not isr and not elr and last_known != NOBODY and one.up >> last_known & 1:
            leader, isr = last_known, 1 << last_known
        if self.elr:
            last_known = NOBODY if leader != NOBODY else one.leader if one.leader != NOBODY else last_known
        elif not isr:
            isr = one.isr
        return one._replace(isr=isr, elr=elr, last_known=last_known, leader=leader)


def members(bits: int) -> list[int]:
    return [broker for broker in range(bits.bit_length()) if bits >> broker & 1]


def _first(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
