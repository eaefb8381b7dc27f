"""
What it costs to carry out a plan, beside the copies: time, memory and calls from approval to the last call.

    .venv/bin/python -m benchmarks moves [--save] [--window 1000]

Every partition of the cluster moves one replica. Kafka is simulated and copies at once, so what is measured is the
executor: each pass sees what the pass before began, and waits for nothing. Times are CPU time. The journal is written
to a file as the command does it.
"""

import argparse
import asyncio
import os
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.machine import Bystanders, describe
from benchmarks.results import new, save
from rackspan.cli.shared.journal import JournalFile
from rackspan.core.planning import Change
from rackspan.core.reassignment import Limits, PartitionState, TopicPartition
from rackspan.reconcile.ports import BrokerDescription, ClusterDescription
from rackspan.reconcile.reassignments.executor import Executor
from rackspan.reconcile.reassignments.ports import Record

RACKS, REPLICAS, PARTITIONS_OF_A_TOPIC = 10, 3, 20
SIZES = [(100, 10_000), (1_000, 200_000)]
COLUMNS = [
    ("brokers", ",d"),
    ("partitions moved", ",d"),
    ("copies at once", ",d"),
    ("CPU s", ".1f"),
    ("passes", ",d"),
    ("median pass, ms", ".1f"),
    ("longest pass, s", ".2f"),
    ("peak of memory, MiB", ",.0f"),
    ("calls", ",d"),
    ("topics read, in thousands", ",.0f"),
    ("journal written, GB", ",.1f"),
]


class InstantKafka:
    """Kafka as far as moves go, where each copy is complete by the next pass; counts what it is asked."""

    def __init__(self, brokers: int, partitions: int) -> None:
        self.calls: Counter[str] = Counter()
        self.topics_read = 0
        self.brokers = tuple(BrokerDescription(one, "", f"/r{one % RACKS}") for one in range(brokers))
        self.lists: dict[str, dict[int, tuple[int, ...]]] = {}
        for number in range(partitions):
            first = number * 7 % brokers
            topic = self.lists.setdefault(f"topic-{number // PARTITIONS_OF_A_TOPIC:06}", {})
            topic[number % PARTITIONS_OF_A_TOPIC] = tuple((first + step) % brokers for step in range(REPLICAS))
        self.configs: dict[object, str | None] = {}

    def changes(self) -> list[Change]:
        """The last replica of each partition goes one rack on."""
        count = len(self.brokers)
        return [
            Change(name, number, (*old[:-1], (old[-1] + 1) % count), old, 10**9)
            for name, topic in self.lists.items()
            for number, old in topic.items()
        ]

    async def cluster(self):
        self.calls["cluster"] += 1
        return ClusterDescription("simulated", self.brokers)

    async def partitions(self, topics):
        self.calls["partitions"] += (
            1 + len(topics) // 1_000
        )  # Metadata, a thousand topics a call, and what is under way
        self.topics_read += len(topics)
        return {
            TopicPartition(name, number): PartitionState(replicas, frozenset(replicas), replicas[0])
            for name in topics
            for number, replicas in self.lists[name].items()
        }

    async def min_insync(self, topics):
        self.calls["min_insync"] += 1 + len(topics) // 1_000
        return dict.fromkeys(topics, 2)

    async def disks(self, brokers):
        self.calls["disks"] += len(brokers)
        return {}

    async def sizes(self, partitions):
        self.calls["sizes"] += len({broker for brokers in partitions.values() for broker in brokers})
        return {}

    async def alter(self, targets):
        self.calls["alter"] += 1
        for at, replicas in targets.items():
            self.lists[at.topic][at.partition] = replicas
        return dict.fromkeys(targets)

    async def elect(self, partitions):
        self.calls["elect"] += 1
        return dict.fromkeys(partitions)

    async def settings(self, wanted):
        self.calls["settings"] += _calls_of(wanted)
        return {one: self.configs.get(one) for one in wanted}

    async def set_settings(self, values):
        self.calls["set_settings"] += _calls_of(values)
        self.configs |= values
        return dict.fromkeys(values)


def _calls_of(settings):
    topics = {one.name for one in settings if one.kind.value == "topic"}
    return len({one.name for one in settings if one.kind.value == "broker"}) + -(-len(topics) // 1_000)


class CountedJournal:
    """The command's journal, and how many bytes it has written."""

    def __init__(self, path: Path) -> None:
        self._file = JournalFile(path)
        self.written = 0

    async def write(self, record):
        await self._file.write(record)
        self.written += self._file.path.stat().st_size


async def carried_out(brokers, partitions, window, directory):
    """Carry out a plan that moves a replica of each partition. Gives a row."""
    kafka = InstantKafka(brokers, partitions)
    changes = kafka.changes()
    racks = {one.id: (f"r{one.id % RACKS}",) for one in kafka.brokers}
    record = Record("simulated", "plan", changes, racks, {one.id: one.rack for one in kafka.brokers})
    journal = CountedJournal(directory / "journal.json")
    limits = Limits(moves=brokers, moves_per_broker=5)
    start, passes = time.process_time(), []
    executor = Executor(kafka, journal, record, limits, 50_000_000, window=window)
    while True:
        before = time.process_time()
        done = await executor.advance()
        passes.append(time.process_time() - before)
        if done.finished:
            break
    assert done.complete, done.waiting[:3]
    assert not any(kafka.configs.values())
    spent = time.process_time() - start
    median = sorted(passes)[len(passes) // 2]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = [brokers, partitions, limits.moves, spent, len(passes), 1000 * median, max(passes), peak]
    return [*row, sum(kafka.calls.values()), kafka.topics_read / 1000, journal.written / 1e9], kafka.calls


def main() -> None:
    parser = argparse.ArgumentParser(description="What carrying out a plan costs beside the copies.")
    parser.add_argument("--save", action="store_true", help="write the result to benchmarks/results")
    parser.add_argument("--window", type=int, default=1_000, help="partitions that a pass looks at")
    parser.add_argument("--size", type=int, nargs=2, action="append", metavar=("BROKERS", "PARTITIONS"))
    options = parser.parse_args()
    print(f"{describe()}, load {os.getloadavg()[0]:.1f}\n")
    rows, conditions = [], []
    for brokers, partitions in options.size or SIZES:
        bystanders = Bystanders()
        with tempfile.TemporaryDirectory() as directory:
            row, calls = asyncio.run(carried_out(brokers, partitions, options.window, Path(directory)))
        rows.append(row)
        conditions.append(bystanders.seen())
        print(", ".join(f"{name} {number:,}" for name, number in sorted(calls.items())), flush=True)
    result = new("moves", COLUMNS, rows, conditions)
    print(f"\n{result.table()}")
    if options.save:
        print(save(result))


if __name__ == "__main__":
    main()
