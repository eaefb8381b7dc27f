"""Compare `rackspan scan` and `rackspan check` with Kafka's `kafka-topics --describe` on a real cluster."""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient, NewTopic
from dev.stack import kafka_archive, kafka_distribution
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.processes import Processes

from benchmarks.scans import whole
from benchmarks.scans.processes import Ran, module, note, run

RACKS = ("/eu/a/r1", "/eu/b/r1", "/eu/c/r1", "/eu/a/r2", "/eu/b/r2", "/eu/c/r2")
PER_TOPIC = 100
TOPICS, QUICK_TOPICS = 200, 20
SLICES = 2
_AT_ONCE = 10
_LEVELS = "region,zone,rack"
_FOUND = (0, 1)
_TOOL = ("-Xmx512m", "-XX:TieredStopAtLevel=1")
MEMORY = Path("/dev/shm")
HEADER = "| what | seconds | CPU s | peak MiB (PSS) |\n| --- | ---: | ---: | ---: |"


@dataclass(frozen=True, slots=True)
class Row:
    """The medians of several runs of one command. `peak` is in bytes."""

    what: str
    seconds: float
    cpu: float
    peak: float

    def __str__(self) -> str:
        return f"| {self.what} | {self.seconds:.1f} | {self.cpu:.1f} | {self.peak / 2**20:,.0f} |"


def benchmark(repeat: int, *, quick: bool) -> None:
    topics = QUICK_TOPICS if quick else TOPICS
    print(
        f"{topics * PER_TOPIC:,} partitions: {topics} topics of {PER_TOPIC}, RF 3, on {len(RACKS)} brokers of this "
        f"machine, data in memory; medians of {repeat} runs, each in a separate process.\n",
        flush=True,
    )
    with cluster("384m" if quick else "1g") as kafka:
        create(kafka, topics)
        _commands(kafka, topics * PER_TOPIC, repeat)
        _calls(kafka, topics * PER_TOPIC, repeat)


@contextmanager
def cluster(heap: str) -> Iterator[KafkaCluster]:
    memory = MEMORY if MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="rackspan-bench-", dir=memory) as folder,
        Processes.attached(Path(folder)) as processes,
    ):
        distribution = kafka_archive.ensure_archive(kafka_distribution.ensure_distribution())
        kafka = KafkaCluster.start(Path(folder) / "kafka", processes, distribution, RACKS, heap=heap)
        note(f"{len(RACKS)} brokers started")
        yield kafka
        kafka.destroy()


def create(kafka: KafkaCluster, topics: int) -> None:
    """Create topics with a replica in each zone. Wait until all replicas are in sync according to every broker."""
    admin = kafka.admin()
    for first in range(0, topics, _AT_ONCE):
        wanted = [_topic(number) for number in range(first, min(first + _AT_ONCE, topics))]
        for answer in admin.create_topics(wanted, operation_timeout=120, request_timeout=180).values():
            answer.result()
    note(f"{topics} topics created")
    servers = kafka.bootstrap().split(",")
    _until(lambda: all(_in_sync(server, topics) for server in servers), "all replicas to be in sync")
    note("all replicas are in sync")


def _topic(number: int) -> NewTopic:
    """Return a topic with a replica in each zone. Brokers n and n + 3 are in the same zone."""
    rows = [[(number + at + shift) % len(RACKS) for shift in range(3)] for at in range(PER_TOPIC)]
    return NewTopic(f"topic-{number:04d}", PER_TOPIC, replica_assignment=rows)


def _in_sync(server: str, topics: int) -> bool:
    """Return whether all replicas are in sync according to this broker. Only a new client queries a single broker."""
    seen = AdminClient({"bootstrap.servers": server}).list_topics(timeout=60)
    found = [one for name, one in seen.topics.items() if name.startswith("topic-")]
    whole_topics = (len(one.partitions) == PER_TOPIC and _all_in_sync(one.partitions.values()) for one in found)
    return len(found) == topics and all(whole_topics)


def _all_in_sync(partitions: Sequence[object]) -> bool:
    return all(len(one.isrs) == len(one.replicas) == 3 for one in partitions)


def _until(done: Callable[[], bool], what: str, timeout: float = 600) -> None:
    deadline = time.monotonic() + timeout
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout:.0f} s for {what}")
        time.sleep(2)


def _commands(kafka: KafkaCluster, partitions: int, repeat: int) -> None:
    servers = kafka.bootstrap()
    print(HEADER, flush=True)
    steps = []

    def scan() -> Ran:
        with tempfile.TemporaryDirectory(prefix="rackspan-bench-") as folder:
            arguments = ("--bootstrap-server", servers, "--levels", _LEVELS)
            ran, seconds = whole.scanned(Path(folder), *arguments)
            steps.append(seconds["reading and judging partitions"])
            looked_at = json.loads((Path(folder) / "report.json").read_text())["summary"]["partitions"]
            _same("rackspan scan", looked_at, partitions)
            return ran

    def check() -> Ran:
        command = [sys.executable, "-m", "rackspan", "check", "--bootstrap-server", servers, "--levels", _LEVELS]
        return run([*command, "-o", "json"], codes=_FOUND)

    def describe() -> Ran:
        command = kafka.distribution.command(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", servers, "--describe", jvm=_TOOL
        )
        ran = run(command)
        _same("kafka-topics", ran.printed.count("\tPartition: "), partitions)
        return ran

    commands = {
        "`kafka-topics --describe`": describe,
        "`rackspan check --bootstrap-server -o json`": check,
        "`rackspan scan --bootstrap-server`, report and page": scan,
    }
    for what, command in commands.items():
        runs = [command() for _ in range(repeat)]
        seconds, cpu, peak = (median(getattr(one, name) for one in runs) for name in ("seconds", "cpu", "peak"))
        print(Row(what, seconds, cpu, peak), flush=True)
    print(f"\n- reading and judging in the scan: {median(steps):.1f} s")


def _calls(kafka: KafkaCluster, partitions: int, repeat: int) -> None:
    """Measure only the reader."""
    runs = [json.loads(run(module("live_once", kafka.bootstrap(), SLICES)).printed) for _ in range(repeat)]
    _same("the reader", runs[0]["partitions"], partitions)
    planning = median(one["planning"] for one in runs)
    tasks = median(max(one["tasks"]) for one in runs)
    print(
        f"- the reader without Spark: driver {planning:.2f} s, the longest of {SLICES} tasks {tasks:.2f} s\n"
        f"- calls to Kafka's Admin API: driver {_named(runs[0]['driver_calls'])}; "
        f"all tasks {_named(runs[0]['task_calls'])}",
        flush=True,
    )


def _named(calls: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(calls.items()) if count)


def _same(what: str, found: int, wanted: int) -> None:
    if found != wanted:
        raise AssertionError(f"{what} returned {found} partitions of {wanted}")
