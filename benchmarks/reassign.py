"""Execute the same plan by Kafka's tool and by `rackspan apply`, in turns, on one cluster and with the same throttle.

    .venv/bin/python -m benchmarks reassign [--runs 3] [--small] [--save]

The plan drains one of six brokers in three zones. All its replicas go to the other broker of its zone, so the minimum
time is the number of bytes divided by the throttle. Meanwhile, a producer with `acks=all` writes to the topic.

Two times are measured from the start of the command. The first one ends when another client sees every partition with
its planned replicas and no reassignment. The second one ends when no throttle is left. Kafka's tool removes its
throttles in one `--verify` at the end of the first time. Between the runs, all replicas move back without a throttle.
At the end, Kafka's tool executes its own proposal once.
"""

import argparse
import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import randbytes
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from dev.stack import kafka_archive, kafka_distribution
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.processes import Processes
from dev.traffic import Traffic
from dev.waiting import eventually

from benchmarks import results
from benchmarks.machine import Bystanders, Conditions, cpu_of, cpu_of_ended, describe
from rackspan.core.reassignment import PartitionState, Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.kafka.kafka_reassignments import KafkaReassignments

ZONES = ("/a", "/b", "/c")
BROKERS, DRAINED = 6, 5
PARTITIONS = 48
REPLICA_BYTES = 300_000_000
"""The bytes of one replica of all partitions. The drained broker has half of them."""
RATE = 7_500_000
TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
MEMORY = Path("/dev/shm")
_MESSAGE = 50_000
_CALM_SECONDS = 5.0
"""The time of traffic before a run, so that clients are connected to their brokers."""
_LONGEST_SECONDS = 120.0
COLUMNS = (
    ("by", ""),
    ("partitions", ",d"),
    ("runs", "d"),
    ("replicas copied", ",d"),
    ("MB copied", ",.0f"),
    ("s until moved", ".1f"),
    ("least", ".1f"),
    ("most", ".1f"),
    ("s until no throttle is left", ".1f"),
    ("p99 of acks=all, ms", ".0f"),
    ("least", ".0f"),
    ("most", ".0f"),
    ("command's CPU s", ".1f"),
    ("Kafka's CPU s", ".1f"),
)

Lists = Mapping[TopicPartition, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one executed plan, or of some seconds of traffic without moves."""

    by: str
    copies: int
    bytes: int
    moved: float | None
    ended: float | None
    p99: float
    client_cpu: float | None
    kafka_cpu: float
    conditions: Conditions


class Kafka:
    """A cluster with a topic from which a broker is drained repeatedly, and a client that observes it."""

    topic = "drained"

    def __init__(self, cluster: KafkaCluster, partitions: int, work: Path) -> None:
        self.cluster, self.partitions, self.work = cluster, partitions, work
        self._loop = asyncio.new_event_loop()
        self._admin = KafkaReassignments(cluster.client_config())
        self._fill()
        self.before: Lists = {at: one.replicas for at, one in self.states().items()}
        self.sizes = self._ask(self._admin.sizes({at: [lists[0]] for at, lists in self.before.items()}))

    def close(self) -> None:
        self._ask(self._admin.close())
        self._loop.close()

    def _ask(self, answer: Any) -> Any:
        return self._loop.run_until_complete(answer)

    def states(self) -> Mapping[TopicPartition, PartitionState]:
        found: Mapping[TopicPartition, PartitionState] = self._ask(self._admin.partitions([self.topic]))
        return found

    def lies_as(self, lists: Lists) -> bool:
        """Return whether all partitions have their planned replicas, are in sync, and are not being reassigned."""
        states = self.states()
        return all(
            (one := states[at]).replicas == replicas and not one.under_way and one.in_sync == frozenset(replicas)
            for at, replicas in lists.items()
        )

    def put_back(self) -> None:
        """Restore the original replicas and leaders without a throttle. Raises AssertionError if a throttle is left."""
        settings = [
            *(Setting(SettingKind.BROKER, str(broker), key) for broker in range(BROKERS) for key in RATES),
            *(Setting(SettingKind.TOPIC, self.topic, key) for key in (LEADERS, FOLLOWERS)),
        ]
        left = {one: value for one, value in self._ask(self._admin.settings(settings)).items() if value is not None}
        if left:
            raise AssertionError(f"throttles are left: {left}")
        _accepted(self._ask(self._admin.alter(self.before)))
        eventually(lambda: self.lies_as(self.before), "the original replicas", timeout=_LONGEST_SECONDS)

        def led() -> bool:
            """Elect the original leaders. A new replica may not be eligible yet."""
            others = [at for at, one in self.states().items() if one.leader != self.before[at][0]]
            if others:
                self._ask(self._admin.elect(others))
            return not others

        eventually(led, "the original leaders", interval=0.5)

    def meet_clients(self) -> None:
        """Connect clients once, so that Kafka creates `__consumer_offsets` before the plan, which counts all topics."""
        every, offsets = range(BROKERS), "__consumer_offsets"
        with Traffic(self.cluster.client_config(), self.topic, self.partitions):
            eventually(lambda: all(offsets in self.cluster.known_to(one).topics for one in every), offsets)

    def copied(self, lists: Lists) -> tuple[int, int]:
        """Return the number of replicas that a plan copies, and their bytes."""
        copies = {at: len(frozenset(replicas).difference(self.before[at])) for at, replicas in lists.items()}
        return sum(copies.values()), sum(copies[at] * size for (at, _), size in self.sizes.items() if at in copies)

    def cpu(self) -> float:
        return cpu_of(self.cluster.processes.pids().values())

    def _fill(self) -> None:
        """Create and fill the topic. Each zone has a replica of each partition. Leaders and followers are balanced."""
        zones = len(ZONES)
        rows = [
            [(at + shift) % zones + zones * ((at // zones >> shift) % 2) for shift in range(zones)]
            for at in range(self.partitions)
        ]
        admin = self.cluster.admin()
        made = admin.create_topics([NewTopic(self.topic, self.partitions, replica_assignment=rows)])
        made[self.topic].result(60)
        known = [lambda one=one: self.topic in self.cluster.known_to(one).topics for one in range(BROKERS)]
        eventually(lambda: all(each() for each in known), f"every broker to know {self.topic}")
        producer = Producer({**self.cluster.client_config(), "compression.type": "none", "linger.ms": 20})
        for number in range(REPLICA_BYTES // _MESSAGE):
            producer.produce(self.topic, randbytes(_MESSAGE), partition=number % self.partitions)
            while len(producer) > 500:
                producer.poll(0.05)
        if producer.flush(120):
            raise AssertionError("some messages were not written")
        lists = {TopicPartition(self.topic, at): tuple(row) for at, row in enumerate(rows)}
        eventually(lambda: self.lies_as(lists), "all replicas to be in sync", timeout=120)


def _cpu_of_commands() -> float:
    """Return the CPU seconds of the ended commands."""
    return sum(os.times()[2:4])


def _accepted(outcomes: Mapping[TopicPartition, object]) -> None:
    if wrong := {at: why for at, why in outcomes.items() if why is not None}:
        raise AssertionError(wrong)


@contextmanager
def cluster() -> Iterator[tuple[KafkaCluster, Path]]:
    """Run six brokers. Their data is in memory if possible. `replica.fetch.wait.max.ms` has Kafka's default."""
    memory = MEMORY if MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="rackspan-bench-", dir=memory) as folder,
        Processes.attached(Path(folder)) as processes,
    ):
        distribution = kafka_archive.ensure_archive(kafka_distribution.ensure_distribution())
        racks = [ZONES[broker % len(ZONES)] for broker in range(BROKERS)]
        waits = {"replica.fetch.wait.max.ms": "500"}
        kafka = KafkaCluster.start(
            Path(folder) / "kafka", processes, distribution, racks, heap="320m", properties=waits
        )
        yield kafka, Path(folder)
        kafka.destroy()


class Plan:
    """The plan of Rackspan that drains the broker, in the formats of both commands."""

    def __init__(self, kafka: Kafka) -> None:
        self._request = ["--bootstrap-server", kafka.cluster.bootstrap(), "--levels", "zone", "--topic", kafka.topic]
        self._request += ["--drain-broker", str(DRAINED)]
        self.hash = json.loads(rackspan("plan", *self._request, "-o", "json"))["hash"]
        self.reassignment = rackspan("plan", *self._request, "-o", "reassignment")
        self.lists = lists_of(self.reassignment)
        self._journal = kafka.work / "journal.json"

    def apply(self, moved: Callable[[], None]) -> None:
        """Execute the plan by `rackspan apply` with its default limits."""
        options = ["--approve", self.hash, "--throttle", f"{RATE}B/s", "--journal", str(self._journal)]
        command = [sys.executable, "-m", "rackspan", "apply", *self._request, *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        moved()
        if process.wait(_LONGEST_SECONDS):
            raise AssertionError(f"rackspan apply ended with {process.returncode}")


def execute(kafka: Kafka, reassignment: str, moved: Callable[[], None]) -> None:
    """Execute the plan by Kafka's tool, which removes its throttles only in --verify."""
    file = kafka.work / "reassignment.json"
    file.write_text(reassignment)
    given = ("--reassignment-json-file", str(file))
    kafka.cluster.tool(TOOL, "--execute", *given, "--throttle", str(RATE))
    moved()
    said = kafka.cluster.tool(TOOL, "--verify", *given)
    if "still in progress" in said:
        raise AssertionError(said)


def generated(kafka: Kafka) -> str:
    """Return the proposal of Kafka's tool for the topic on the brokers that are not drained."""
    file = kafka.work / "topics.json"
    file.write_text(json.dumps({"version": 1, "topics": [{"topic": kafka.topic}]}))
    stay = ",".join(str(broker) for broker in range(BROKERS) if broker != DRAINED)
    said = kafka.cluster.tool(TOOL, "--generate", "--topics-to-move-json-file", str(file), "--broker-list", stay)
    return said.partition("Proposed partition reassignment configuration")[2].strip()


def rackspan(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "rackspan", *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def lists_of(reassignment: str) -> Lists:
    rows = json.loads(reassignment)["partitions"]
    return {TopicPartition(row["topic"], row["partition"]): tuple(row["replicas"]) for row in rows}


def measured(kafka: Kafka, by: str, lists: Lists, carry_out: Callable[[Callable[[], None]], None] | None) -> Run:
    """Execute a plan with traffic. `carry_out` calls its argument to wait until the replicas are as planned.

    If `carry_out` is None, only the traffic runs for some seconds.
    """
    with Traffic(kafka.cluster.client_config(), kafka.topic, kafka.partitions) as traffic:
        time.sleep(_CALM_SECONDS)
        traffic.latencies()
        bystanders = Bystanders(lambda: kafka.cpu() + cpu_of_ended())
        client, brokers, started = _cpu_of_commands(), kafka.cpu(), time.monotonic()
        took = []

        def until_moved() -> None:
            eventually(lambda: kafka.lies_as(lists), "the planned replicas", timeout=_LONGEST_SECONDS, interval=0.2)
            took.append(time.monotonic() - started)

        if carry_out is None:
            time.sleep(2 * _CALM_SECONDS)
        else:
            carry_out(until_moved)
        ended, latencies = time.monotonic() - started, sorted(traffic.latencies())
        spent = _cpu_of_commands() - client, kafka.cpu() - brokers
        seen = bystanders.seen()
    traffic.check()
    p99 = 1000 * latencies[math.ceil(0.99 * len(latencies)) - 1]
    print(f"  {by}: {took}, {ended:.1f} s, p99 {p99:.0f} ms, CPU {spent[0]:.1f} and {spent[1]:.1f}", file=sys.stderr)
    if carry_out is None:
        return Run(by, 0, 0, None, None, p99, None, spent[1], seen)
    return Run(by, *kafka.copied(lists), took[0], ended, p99, *spent, seen)


def compared(kafka: Kafka, runs: int) -> list[Run]:
    """Run both commands in turn, then the proposal of Kafka's tool, then only traffic."""
    kafka.meet_clients()
    plan, found = Plan(kafka), []

    def tool(reassignment: str) -> Callable[[Callable[[], None]], None]:
        return lambda moved: execute(kafka, reassignment, moved)

    sides = [
        ("Kafka's tool, Rackspan's plan", tool(plan.reassignment)),
        ("rackspan apply, the same plan", plan.apply),
    ]
    for turn in range(runs):
        for by, carry_out in sides[:: -1 if turn % 2 else 1]:
            found.append(measured(kafka, by, plan.lists, carry_out))
            kafka.put_back()
    own = generated(kafka)
    found.append(measured(kafka, "Kafka's tool, its --generate", lists_of(own), tool(own)))
    kafka.put_back()
    found.append(measured(kafka, "no plan: nothing moves", {}, None))
    return found


def row(partitions: int, runs: Sequence[Run]) -> tuple[list[results.Cell], Conditions]:
    """Return a table row with the medians of runs of one kind, and the conditions of the median run."""
    middle = sorted(runs, key=lambda one: one.moved or 0.0)[len(runs) // 2]
    moved = [one.moved for one in runs if one.moved is not None]
    ended = [one.ended for one in runs if one.ended is not None]
    client = [one.client_cpu for one in runs if one.client_cpu is not None]
    p99 = [one.p99 for one in runs]
    several = len(runs) > 1
    cells: list[results.Cell] = [middle.by, partitions, len(runs)]
    cells += [middle.copies, middle.bytes / 1e6] if moved else [None, None]
    cells += [_median(moved), min(moved) if several else None, max(moved) if several else None, _median(ended)]
    cells += [_median(p99), min(p99) if several else None, max(p99) if several else None]
    cells += [_median(client), _median([one.kafka_cpu for one in runs])]
    return cells, middle.conditions


def _median(numbers: Sequence[float]) -> float | None:
    return statistics.median(numbers) if numbers else None


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks reassign", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="number of runs of each command (default: 3)")
    parser.add_argument("--small", action="store_true", help="ten times as many partitions, the same total size")
    parser.add_argument("--save", action="store_true", help="write the result to benchmarks/results")
    options = parser.parse_args(arguments)
    print(f"{describe()}, load {os.getloadavg()[0]:.1f}\n", flush=True)
    by: dict[str, list[Run]] = {}
    with (
        cluster() as (running, work),
        closing(Kafka(running, (10 if options.small else 1) * PARTITIONS, work)) as kafka,
    ):
        for one in compared(kafka, options.runs):
            by.setdefault(one.by, []).append(one)
        cells, conditions = zip(*(row(kafka.partitions, same) for same in by.values()), strict=True)
    result = results.new("reassign-small" if options.small else "reassign", COLUMNS, cells, conditions)
    print(result.table())
    if options.save:
        print(results.save(result))


if __name__ == "__main__":
    main()
