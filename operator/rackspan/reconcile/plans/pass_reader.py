"""Reads what a pass decides on. Each kind of data is read as often as it changes, because each read costs brokers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rackspan.core.reassignment import Observed, WaitReason, of_change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rackspan.core.planning import Change
    from rackspan.core.reassignment import Disk, MoveDecision, PartitionState, TopicPartition, Worklist
    from rackspan.reconcile.ports import ReassignmentAdmin, Record

PASSES_UNTIL_STALE = 20
"""The number of passes for which min.insync.replicas is kept, and of passes between two checks of all partitions."""
_PASSES_UNTIL_CORDONS = 5
"""The number of passes between two checks for cordons: each response has all configs of a broker."""
_PASSES_UNTIL_DISKS = 3
"""The number of passes between two checks for lost log directories on brokers that do not report a copy."""


class PassReader:
    """Reads the partitions of a plan and its brokers, pass by pass. Methods raise FailureError."""

    def __init__(self, admin: ReassignmentAdmin, record: Record, worklist: Worklist) -> None:
        self._admin = admin
        self._worklist = worklist
        self._topic_ids = record.topic_ids
        takers = {broker for change in record.changes for broker in change.replicas}
        self.holders = takers.union(*(change.before for change in record.changes))
        """The brokers that hold the plan's partitions, before or after it."""
        self.passes = 0
        """The number of passes that were read."""
        self.sizes = {
            of_change(change): change.size_bytes for change in record.changes if change.size_bytes is not None
        }
        """The bytes of one replica."""
        self.cordons: dict[int, bool | None] = {}
        """Whether each broker is cordoned, as last reported."""
        self._cordons_due = 0
        """The pass that checks for cordons again."""
        self.copying: Mapping[TopicPartition, frozenset[int]] = {}
        """The brokers that copy, by partition, after the last pass."""
        self._min_insync: Mapping[str, int] = {}
        self._read_at = -PASSES_UNTIL_STALE
        self._disks: Mapping[int, Disk] = {}
        self._unreported: frozenset[tuple[TopicPartition, int]] = frozenset()
        """Copies whose bytes their brokers did not report in the last pass."""

    async def read(
        self,
        online: frozenset[int],
        looked_at: Mapping[TopicPartition, Change],
        throttled: Collection[str],
        *,
        may_copy: bool,
    ) -> Observed:
        """Return the state of the partitions to check. `recreated` may also have topics that are `throttled`."""
        topics = {at.topic for at in looked_at}
        await self._read_min_insync(topics, whole=self._worklist.is_whole(looked_at))
        if self.passes >= self._cordons_due:
            # A broker that does not report whether it is cordoned keeps its last value.
            self.cordons |= await self._admin.cordoned(sorted(online & self.holders))
            self._cordons_due = self.passes + _PASSES_UNTIL_CORDONS
        seen = await self._admin.partitions(topics.union(throttled))
        recreated = self.recreated(seen)
        self._fill_disks(seen)
        await self._read_disks(online, looked_at.values() if may_copy else ())
        partitions = {at: self._with_lost(at, one) for at, one in seen.items() if at.topic in topics - recreated}
        if self.passes == 0:
            moved = [at for at, change in looked_at.items() if change.copied]
            states = [(at, partitions[at]) for at in moved if at in partitions]
            sizes = await self._admin.sizes({at: [one.leader] for at, one in states if one.leader is not None})
            self.sizes |= {at: size for (at, _), size in sizes.items()}
        self.passes += 1
        cordoned = frozenset(broker for broker, is_cordoned in self.cordons.items() if is_cordoned)
        return Observed(
            partitions, online, self._min_insync, self._disks, self.sizes, recreated=recreated, cordoned=cordoned
        )

    async def copied(
        self, decision: MoveDecision, observed: Observed
    ) -> Mapping[tuple[TopicPartition, int], int | None]:
        """Remember the copies under way, and return their bytes if they are not in sync; None if not reported."""
        self.copying = decision.copying
        offline = {one.partition for one in decision.waiting if one.reason is WaitReason.DISK_OFFLINE}
        states = {at: observed.partitions[at] for at in offline.union(decision.copying) if at in observed.partitions}
        behind = {at: (one.adding - one.in_sync) & observed.online for at, one in states.items()}
        sizes = await self._admin.sizes(behind) if any(behind.values()) else {}
        found = {(at, broker): sizes.get((at, broker)) for at, brokers in behind.items() for broker in brokers}
        self._unreported = frozenset(one for one, size in found.items() if size is None)
        return {(at, broker): size for (at, broker), size in found.items() if at not in offline}

    def recreated(self, partitions: Mapping[TopicPartition, PartitionState]) -> frozenset[str]:
        """Return the topics whose ids are not those that the plan was made for."""
        ids = self._topic_ids
        return frozenset(
            at.topic
            for at, state in partitions.items()
            if state.topic_id is not None and ids.get(at.topic, state.topic_id) != state.topic_id
        )

    def expect_cordons(self) -> None:
        """Check for cordons in the next pass: Kafka has refused a change, and a cordon may be the reason."""
        self._cordons_due = 0

    async def _read_min_insync(self, topics: Collection[str], *, whole: bool) -> None:
        if whole and self.passes >= self._read_at + PASSES_UNTIL_STALE:
            self._read_at = self.passes
            self._min_insync = {**self._min_insync, **await self._admin.min_insync(topics)}
        elif held := {one.partition.topic for one in self._worklist.waiting if one.reason is WaitReason.MIN_INSYNC}:
            # The config is lowered for these topics. Read it at once: until the plan continues, writes are less safe.
            self._min_insync = {**self._min_insync, **await self._admin.min_insync(held)}

    def _fill_disks(self, partitions: Mapping[TopicPartition, PartitionState]) -> None:
        """Subtract copies that have ended from the free space of their disks: brokers may not report it for long."""
        for at, brokers in self.copying.items():
            for broker in brokers & self._disks.keys() & (partitions[at].in_sync if at in partitions else frozenset()):
                disk = self._disks[broker]
                self._disks = {**self._disks, broker: replace(disk, usable=disk.usable - self.sizes.get(at, 0))}

    async def _read_disks(self, online: frozenset[int], copied: Iterable[Change]) -> None:
        """Read the free space of target brokers, because copies fill disks in each pass; of others only if needed."""
        asked: set[int] = set().union(*({*change.replicas}.difference(change.before) for change in copied))
        if self.passes % _PASSES_UNTIL_DISKS == 0:
            asked.update(broker for _, broker in self._unreported)
        if some := online & asked:
            self._disks = {**self._disks, **await self._admin.disks(some)}

    def _with_lost(self, at: TopicPartition, state: PartitionState) -> PartitionState:
        """Mark unreported copies on brokers with a lost log directory as offline, which Kafka 4.4's metadata omit."""
        lost = frozenset(
            broker
            for broker in state.adding
            if (at, broker) in self._unreported and (disk := self._disks.get(broker)) is not None and disk.lost
        )
        return replace(state, offline=state.offline | lost) if lost else state
