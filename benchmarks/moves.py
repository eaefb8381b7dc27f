"""The cost of executing a plan, without the copies: time, memory and calls, from the approval to the last call.

    .venv/bin/python -m benchmarks moves [--save] [--by operator] [--size 1000 200000]

The plan moves one replica of every partition of the cluster. Kafka is simulated, and copies complete immediately, so
only the code of Rackspan is measured: each pass sees the copies of the previous pass as complete. The worker of the
operator splits the plan into Reassignments, and writes each status as JSON to an API server in memory. The command
writes its journal to a file. Each row is measured in a separate process. Times are CPU times.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.machine import Bystanders, describe
from benchmarks.results import new, save
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import RackTopology
from rackspan.cli.shared.journal_file import JournalFile
from rackspan.core.planning import Change
from rackspan.core.reassignment import Limits, ListChange, ListOperation, PartitionState, TopicPartition
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.dependencies import ReassignmentDependencies
from rackspan.reconcile.plans.approved_plans import ApprovedPlan, ApprovedPlans
from rackspan.reconcile.plans.executor import Executor
from rackspan.reconcile.plans.worker import TopologyWorker
from rackspan.reconcile.ports import BrokerDescription, ClusterDescription, Record
from rackspan.reconcile.runtime.informer import key_of
from rackspan.reconcile.runtime.writers import FinalizerWriter

RACKS, REPLICAS, PARTITIONS_OF_A_TOPIC = 10, 3, 20
RATE, COPIES_OF_A_BROKER = 50_000_000, 5
HASH = "0123456789abcdef"
TOPOLOGY = ObjectKey("kafka", "bench")
SIZES = [
    ("command", 100, 10_000),
    ("operator", 100, 20_000),
    ("operator", 500, 100_000),
    ("operator", 1_000, 50_000),
    ("operator", 1_000, 100_000),
    ("operator", 1_000, 200_000),
]
COLUMNS = [
    ("by", ""),
    ("brokers", ",d"),
    ("partitions moved", ",d"),
    ("copies at once", ",d"),
    ("CPU s", ".1f"),
    ("passes", ",d"),
    ("median pass, ms", ".1f"),
    ("longest pass, s", ".2f"),
    ("peak memory, MiB", ",.0f"),
    ("calls", ",d"),
    ("topics read, in thousands", ",.0f"),
    ("record written, GB", ",.1f"),
]


class InstantKafka:
    """A fake Kafka for moves. Each copy is complete at the next pass. It counts the calls."""

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
        """Return a change per partition, which moves its last replica to the next rack."""
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
        )  # Metadata calls for 1,000 topics each, and one call that lists reassignments
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
        for setting, change in values.items():
            self.configs[setting] = _changed(self.configs.get(setting), change)
        return dict.fromkeys(values)

    async def close(self):
        pass


def _changed(value, change):
    if not isinstance(change, ListChange):
        return change
    names, changed = (value or "").split(",") if value else [], change.names.split(",")
    if change.operation is ListOperation.APPEND:
        return ",".join(dict.fromkeys([*names, *changed]))
    gone = set(changed)
    return ",".join(name for name in names if name not in gone)


def _calls_of(settings):
    topics = {one.name for one in settings if one.kind.value == "topic"}
    return len({one.name for one in settings if one.kind.value == "broker"}) + -(-len(topics) // 1_000)


class CountedJournal:
    """The journal of the command, with the number of written bytes."""

    def __init__(self, path: Path) -> None:
        self._file = JournalFile(path)
        self.written = 0

    async def write(self, record):
        await self._file.write(record)
        self.written += self._file.path.stat().st_size


class StoredObjects:
    """A fake API server for Reassignments. It serializes objects to JSON and parses them, as a client does."""

    def __init__(self) -> None:
        self.bodies: dict[ObjectKey, str] = {}
        self.calls: Counter[str] = Counter()
        self.written = 0
        self._version = 0

    async def create(self, body):
        self.calls["objects created"] += 1
        identity = {"uid": body["metadata"]["name"], "creationTimestamp": "2026-01-31T12:00:00Z", "generation": 1}
        return self._stored({**body, "metadata": {**body["metadata"], **identity}})

    async def plan(self, known):
        self.calls["objects read"] += 1
        return json.loads(self.bodies[known.key])["spec"]["plan"]

    async def write_status(self, known, status):
        self.calls["statuses written"] += 1
        return self._stored({**json.loads(self.bodies[known.key]), "status": status})

    async def set_finalizers(self, ref, finalizers, version):  # noqa: ARG002
        self.calls["finalizers written"] += 1
        body = json.loads(self.bodies[ref.key])
        return self._stored({**body, "metadata": {**body["metadata"], "finalizers": list(finalizers)}})

    async def delete(self, known):
        del self.bodies[known.key]

    async def find(self, kind, key):  # noqa: ARG002
        self.calls["objects read"] += 1
        return json.loads(self.bodies[key])

    async def secret(self, namespace, name):
        raise AssertionError((namespace, name))

    def record_event(self, event):
        pass

    def _stored(self, body):
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        text = json.dumps(body)
        self.written += len(text)
        self.bodies[key_of(body)] = text
        return json.loads(text)


async def by_command(kafka: InstantKafka, limits: Limits, directory: Path) -> tuple[list[float], int, Counter[str]]:
    """Execute a plan by the command. Return the CPU seconds of each pass, the written bytes, and an empty counter."""
    racks = {one.id: (f"r{one.id % RACKS}",) for one in kafka.brokers}
    record = Record("simulated", "plan", kafka.changes(), racks, {one.id: one.rack for one in kafka.brokers})
    journal = CountedJournal(directory / "journal.json")
    executor = Executor(kafka, journal, record, limits, RATE)

    async def advance():
        done = await executor.advance()
        assert not done.finished or not (done.waiting or done.throttles), done.waiting[:3]
        return done.finished

    return await passes_of(advance), journal.written, Counter()


async def by_operator(kafka: InstantKafka, limits: Limits, _: Path) -> tuple[list[float], int, Counter[str]]:
    """Execute an approved plan by the operator. The first pass creates the Reassignments.

    Return the CPU seconds of each pass, the written bytes, and the calls to the API server by name.
    """
    cache, objects = Cache(), StoredObjects()
    topology = RackTopology.from_object(
        {
            "metadata": {"namespace": TOPOLOGY.namespace, "name": TOPOLOGY.name, "uid": "topology", "generation": 1},
            "spec": {
                "kafka": {"bootstrapServers": "kafka:9092"},
                "levels": [{"name": "zone"}],
                "rackSource": "Broker",
                "reassignment": {
                    "throttle": RATE,
                    "maxConcurrentMoves": limits.moves,
                    "maxConcurrentMovesPerBroker": limits.moves_per_broker,
                },
            },
            "status": {"brokers": [{"id": one.id, "rack": one.rack} for one in kafka.brokers]},
        }
    )
    cache.topologies[TOPOLOGY] = topology

    class Connector:
        async def connect(self, owner, spec, credentials):  # noqa: ARG002
            return kafka

    dependencies = ReassignmentDependencies(cache, objects, objects, Connector(), FinalizerWriter(objects))
    worker, begun = TopologyWorker(TOPOLOGY, dependencies), False

    async def advance():
        nonlocal begun
        if not begun:
            racks = {one.id: (f"r{one.id % RACKS}",) for one in kafka.brokers}
            reported = {one.id: one.rack for one in kafka.brokers}
            plan = ApprovedPlan("simulated", HASH, kafka.changes(), racks, reported, approved_by="", names=(HASH,))
            await ApprovedPlans(cache, objects).begin(topology, plan)
            for text in objects.bodies.values():  # as the watch reports it
                body = json.loads(text)
                cache.versions.record("Reassignment", body)
                cache.put_reassignment(body)
            begun = True
        await worker.reconcile()
        return all(one.ended for one in cache.reassignments.values())

    spent = await passes_of(advance)
    states = Counter(one.status.state for one in cache.reassignments.values())
    assert states.keys() == {"Succeeded"}, states
    before = objects.calls.total() + kafka.calls.total()
    await worker.reconcile()
    assert objects.calls.total() + kafka.calls.total() == before, "calls after the end of the plan"
    return spent, objects.written, objects.calls


async def passes_of(advance: Callable[[], Awaitable[bool]]) -> list[float]:
    """Return the CPU seconds of each pass, up to the last one."""
    spent, finished = [], False
    while not finished:
        before = time.process_time()
        finished = await advance()
        spent.append(time.process_time() - before)
    return spent


WAYS = {"command": by_command, "operator": by_operator}


async def carried_out(way: str, brokers: int, partitions: int) -> tuple[list[object], Counter[str]]:
    """Execute a plan that moves one replica of each partition. Return a table row, and the calls by name."""
    kafka = InstantKafka(brokers, partitions)
    planned = {TopicPartition(one.topic, one.partition): one.replicas for one in kafka.changes()}
    limits = Limits(moves=brokers, moves_per_broker=COPIES_OF_A_BROKER)
    with tempfile.TemporaryDirectory() as directory:
        spent, written, calls = await WAYS[way](kafka, limits, Path(directory))
    assert not any(kafka.configs.values()), "throttles are left"
    assert all(kafka.lists[at.topic][at.partition] == replicas for at, replicas in planned.items())
    median = sorted(spent)[len(spent) // 2]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = [way, brokers, partitions, limits.moves, sum(spent), len(spent), 1000 * median, max(spent), peak]
    calls += kafka.calls
    return [*row, calls.total(), kafka.topics_read / 1000, written / 1e9], calls


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks moves", description="Measure moves without copies.")
    parser.add_argument("--save", action="store_true", help="write the result to benchmarks/results")
    parser.add_argument("--by", choices=WAYS, default="operator", help="what executes the plans of --size")
    parser.add_argument("--size", type=int, nargs=2, action="append", metavar=("BROKERS", "PARTITIONS"))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [(options.by, *size) for size in options.size] if options.size else SIZES
    if options.one:
        json.dump(asyncio.run(carried_out(*sizes[0])), sys.stdout)
        return
    print(f"{describe()}, load {os.getloadavg()[0]:.1f}\n")
    rows, conditions = [], []
    for way, *size in sizes:
        bystanders = Bystanders()
        command = [sys.executable, "-m", "benchmarks.moves", "--one", "--by", way, "--size", *map(str, size)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        row, calls = json.loads(done.stdout)
        rows.append(row)
        conditions.append(bystanders.seen())
        print(", ".join(f"{name} {number:,}" for name, number in sorted(calls.items())), flush=True)
    result = new("moves", COLUMNS, rows, conditions)
    print(f"\n{result.table()}")
    if options.save:
        print(save(result))


if __name__ == "__main__":
    main()
