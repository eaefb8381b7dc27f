"""Kafka's `kafka-reassign-partitions --generate` and the placer of Kafka's controller, in one warm process."""

import json
import subprocess
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from dev.progress import need
from dev.stack.kafka_distribution import KafkaDistribution, ensure_distribution

from benchmarks.plans.clusters import snapshot
from rackspan.core.snapshot import BrokerIds, Partitions
from rackspan.core.topology import BrokerLocation
from rackspan.snapshots import snapshot_lines

HERE = Path(__file__).parent
MAIN_CLASS = "org.apache.kafka.clients.admin.KafkaTool"
PROPOSED = "Proposed partition reassignment configuration"


class ToolRefusedError(RuntimeError):
    """The tool returned no proposal. The message is that of the tool."""


@dataclass(frozen=True, slots=True)
class KafkaTool:
    """The Java program. A request is one line. Snapshots and results are in files."""

    version: str
    work: Path
    process: subprocess.Popen[str]

    def generate(self, brokers: Collection[BrokerLocation], partitions: Partitions, onto: Collection[int]) -> BrokerIds:
        """Return the proposal of --generate for all topics, with `onto` as --broker-list. Raises ToolRefusedError."""
        text = self._ask("generate", brokers, partitions, ",".join(map(str, sorted(onto))))
        return proposal(text, partitions)

    def place(self, brokers: Collection[BrokerLocation], partitions: Partitions, seed: int) -> BrokerIds:
        """Return the replicas of all topics as a controller would create them."""
        return reassignment(self._ask("place", brokers, partitions, str(seed)), partitions)

    def _ask(self, what: str, brokers: Collection[BrokerLocation], partitions: Partitions, argument: str) -> str:
        given, answered = self.work / "snapshot.json", self.work / "answer"
        given.write_text("".join(snapshot_lines(snapshot(brokers, partitions))))
        if self.process.stdin is None or self.process.stdout is None:
            raise AssertionError("the process has no pipes")
        self.process.stdin.write("\t".join((what, str(given), argument, str(answered))) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if answer != "ok":
            raise ToolRefusedError(answer or "the process has ended")
        return answered.read_text()


@contextmanager
def kafka_tool(distribution: KafkaDistribution | None = None) -> Iterator[KafkaTool]:
    """Compile and start the Java program. Download Kafka's jars if they are missing."""
    kafka = distribution or ensure_distribution()
    jars = ":".join(map(str, kafka.jars))
    with tempfile.TemporaryDirectory(prefix="rackspan-bench-") as folder:
        work = Path(folder)
        javac = [need("javac", "compile the program that runs Kafka's tool"), "-cp", jars, "-d", folder]
        subprocess.run([*javac, str(HERE / "KafkaTool.java")], check=True)
        java = [str(kafka.java), "-Dlog4j2.level=OFF", "-cp", f"{folder}:{jars}", MAIN_CLASS]
        with subprocess.Popen(
            java, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            yield KafkaTool(kafka.version, work, process)


def proposal(printed: str, partitions: Partitions) -> BrokerIds:
    """Parse the output of the tool. Return the proposed replicas in the order of `partitions`."""
    _, found, proposed = printed.partition(PROPOSED)
    if not found:
        raise ToolRefusedError(printed.strip())
    return reassignment(proposed, partitions)


def reassignment(document: str, partitions: Partitions) -> BrokerIds:
    """Parse JSON in the format of --execute. Return the replicas in the order of `partitions`."""
    rows = json.loads(document)["partitions"]
    by_partition = {(row["topic"], row["partition"]): row["replicas"] for row in rows}
    if len(by_partition) != len(partitions):
        raise ToolRefusedError(f"{len(by_partition)} partitions of {len(partitions)} are in the result")
    return np.array(
        [
            by_partition[partitions.names[topic], number]
            for topic, number in zip(partitions.topic.tolist(), partitions.number.tolist(), strict=True)
        ],
        dtype=np.int32,
    )
