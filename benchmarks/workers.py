"""
The cost of Kafka clients in worker processes, compared with clients in this process: memory, start, and calls.

    .venv/bin/python -m benchmarks workers [--save]
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import psutil
from confluent_kafka.admin import NewTopic
from dev.stack import kafka_archive, kafka_distribution
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.processes import Processes

from benchmarks import results
from benchmarks.machine import Bystanders, cpu_of, cpu_of_ended, describe
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import KafkaSpec
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.client_config import client_properties
from rackspan.kafka.worker.calls import ClientKind
from rackspan.kafka.worker.places import WorkerLimits
from rackspan.kafka.worker.workers import WorkerConnector, Workers
from rackspan.reconcile.ports import AlwaysPermitted, Credentials

RACKS = ("/eu/a", "/eu/b", "/eu/c")
TOPICS = [f"t{number}" for number in range(500)]
OWNER = ObjectKey("bench", "bench")
STARTS = 10
STARTED = (
    ("worker process", ""),
    ("starts", ",d"),
    ("ms to the first response", ".0f"),
    ("CPU ms", ".0f"),
    ("MiB", ".0f"),
    ("private MiB", ".0f"),
)
CALLED = (
    ("call", ""),
    ("calls", ",d"),
    ("µs in a worker process", ",.0f"),
    ("µs in this process", ",.0f"),
    ("ratio", ".2f"),
)


async def starts(kafka: KafkaCluster, kind: ClientKind, what: str) -> list[results.Cell]:
    seconds, cpu, whole, own = [], [], [], []
    for _ in range(STARTS):
        workers = Workers(WorkerLimits())
        started = time.perf_counter()
        await WorkerConnector(workers, kind, AlwaysPermitted()).connect(
            OWNER, KafkaSpec(kafka.bootstrap()), Credentials()
        )
        seconds.append(time.perf_counter() - started)
        (process,) = (one for one in psutil.Process().children() if "rackspan.kafka.worker.process" in one.cmdline())
        times, memory = process.cpu_times(), process.memory_full_info()
        cpu.append(times.user + times.system)
        whole.append(memory.rss)
        own.append(memory.uss)
        await workers.close()
    ms = [1000 * statistics.median(some) for some in (seconds, cpu)]
    return [what, STARTS, *ms, *(statistics.median(some) / 2**20 for some in (whole, own))]


async def calls(kafka: KafkaCluster) -> list[list[results.Cell]]:
    workers = Workers(WorkerLimits())
    apart = await WorkerConnector(workers, ClientKind.TOPICS, AlwaysPermitted()).connect(
        OWNER, KafkaSpec(kafka.bootstrap()), Credentials()
    )
    here = ConfluentAdmin(client_properties(KafkaSpec(kafka.bootstrap()), Credentials()))
    await here.cluster()
    kinds = (
        ("the brokers", 500, lambda client: client.cluster()),
        (f"{len(TOPICS)} topics", 50, lambda client: client.topics(TOPICS)),
        (f"configs of {len(TOPICS)} topics", 20, lambda client: client.configs(TOPICS)),
        ("all replicas", 50, lambda client: client.assignments()),
    )
    rows = []
    for what, count, call in kinds:
        spent = {}
        for _ in range(3):
            for client in (apart, here):
                started = time.perf_counter()
                for _ in range(count):
                    await call(client)
                spent.setdefault(client, []).append((time.perf_counter() - started) / count * 1e6)
        of = [statistics.median(spent[client]) for client in (apart, here)]
        rows.append([what, count * 3, *of, of[0] / of[1]])
    await here.close()
    await workers.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks workers", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write the results to benchmarks/results")
    options = parser.parse_args()
    print(f"{describe()}\n")
    with tempfile.TemporaryDirectory() as folder, Processes.attached(Path(folder)) as processes:
        distribution = kafka_archive.ensure_archive(kafka_distribution.ensure_distribution())
        kafka = KafkaCluster.start(Path(folder) / "kafka", processes, distribution, RACKS)
        admin = kafka.admin()
        for answer in admin.create_topics([NewTopic(name, 3, 3) for name in TOPICS]).values():
            answer.result(60)
        for name, columns, measure in (
            ("worker-starts", STARTED, lambda: start_rows(kafka)),
            ("worker-calls", CALLED, lambda: asyncio.run(calls(kafka))),
        ):
            bystanders = Bystanders(lambda: cpu_of_ended() + cpu_of(processes.pids().values()))
            rows = measure()
            result = results.new(name, columns, rows, [bystanders.seen()] * len(rows))
            print(result.table())
            if options.save:
                print(f"written to {results.save(result)}")


def start_rows(kafka: KafkaCluster) -> list[list[results.Cell]]:
    kinds = ((ClientKind.TOPICS, "for topics"), (ClientKind.REASSIGNMENTS, "for reassignments"))
    return [asyncio.run(starts(kafka, kind, what)) for kind, what in kinds]


if __name__ == "__main__":
    main()
