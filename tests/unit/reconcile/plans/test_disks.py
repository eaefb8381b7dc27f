"""Copies respect the disk reserve of brokers, however fast one copy follows another."""

import pytest
from tests.support.simulated_kafka import CLUSTER_ID, MemoryJournal, SimulatedKafka

from rackspan.core.planning import Change
from rackspan.core.reassignment import Disk, Limits, TopicPartition, WaitReason
from rackspan.reconcile.plans.executor import Executor
from rackspan.reconcile.ports import Record

SIZE, TOTAL, USABLE = 30, 1000, 400
FIT = 11
"""The number of copies that leaves 5 % of the disk free."""


class Filling(SimulatedKafka):
    """A cluster with little free space on broker 3, less with each copy. While `silent`, no disk is reported."""

    silent = False

    async def disks(self, brokers):
        copied = sum(3 in one.replicas for one in self.state.values())
        return {3: Disk(TOTAL, USABLE - SIZE * copied)} if 3 in brokers and not self.silent else {}

    async def sizes(self, partitions):
        return {(at, broker): SIZE for at, brokers in partitions.items() for broker in brokers}


@pytest.mark.parametrize("silence", [range(31, 45), range(1, 40), range(2, 40), range(5, 9)])
async def test_copies_in_sequence_never_use_the_disk_reserve_even_without_disk_reports(silence):
    racks = {broker: ("eu", f"z{broker}") for broker in range(4)}
    before = {TopicPartition("orders", number): (0, 1, 2) for number in range(40)}
    planned = dict.fromkeys(before, (3, 1, 2))
    limits = Limits(5, 5)
    kafka = Filling(racks, before, planned, limits=limits)
    changes = [Change(at.topic, at.partition, planned[at], before[at], SIZE) for at in before]
    record = Record(CLUSTER_ID, "h", changes, racks, {broker: "/".join(("", *path)) for broker, path in racks.items()})
    executor = Executor(kafka, MemoryJournal(kafka, record), record, limits)
    for number in range(45):
        kafka.silent = number in silence
        last = await executor.advance()
        kafka.catch_up_all()
        assert sum(3 in one.replicas for one in kafka.state.values()) <= FIT
    assert sum(3 in one.replicas for one in kafka.state.values()) == FIT
    assert {one.reason for one in last.waiting} == {WaitReason.DISK_FULL}
