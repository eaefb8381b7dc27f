"""The operator under load: many KafkaTopics at once, on a real API server and a real Kafka of three brokers.

In the same run, for contrast: the same topics made by a bare client, one call a topic and in a few batched calls.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import urllib3
from confluent_kafka.admin import AdminClient, NewTopic
from dev.paths import REPOSITORY
from dev.stack import assets, kafka_archive, kafka_distribution
from dev.stack.control_plane import ControlPlane
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.nodes import create_sites, sites
from dev.stack.processes import Processes, free_ports
from kubernetes import client
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.machine import describe
from rackspan.kube.rest import Rest, connect

NAMESPACE = "bench"
BROKERS = ("/eu/a/r1", "/eu/b/r1", "/eu/c/r1")
TOPICS_PATH = f"/apis/rackspan.dev/v1alpha1/namespaces/{NAMESPACE}/kafkatopics"
CLIENTS = 16
MEMORY = Path("/dev/shm")
"""Where the data of Kafka and etcd lie if it is there: what a shared disk takes to make 18,000 logs differs by a factor
of two from run to run, and is not what is measured here."""


@dataclass(frozen=True, slots=True)
class Stack:
    plane: ControlPlane
    kafka: KafkaCluster

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far: of Kafka, of Kubernetes, and of the client that sends and watches."""
        spent = {"Kafka": 0.0, "Kubernetes": 0.0, "client": _cpu(psutil.Process())}
        for name, pid in self.plane.processes.pids().items():
            spent["Kafka" if name.startswith("kafka") else "Kubernetes"] += _cpu(psutil.Process(pid))
        return spent

    def calm(self) -> float:
        """Seconds on the clock when Kafka had no more to do: its CPU below one core for two seconds."""
        since, before = time.perf_counter(), self.cpu()["Kafka"]
        while True:
            time.sleep(2)
            now, spent = time.perf_counter(), self.cpu()["Kafka"]
            if spent - before < now - since:
                return since
            since, before = now, spent


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@contextmanager
def fresh_stack(heap: str) -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="rackspan-bench-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        directory = Path(folder)
        with Processes.attached(directory) as processes:
            distribution = kafka_archive.ensure_archive(kafka_distribution.ensure_distribution())
            plane = ControlPlane.start(directory / "kubernetes", processes, assets.ensure_kubernetes())
            kafka = KafkaCluster.start(directory / "kafka", processes, distribution, BROKERS, heap=heap)
            with plane.api_client() as api:
                core = client.CoreV1Api(api)
                core.create_namespace({"metadata": {"name": NAMESPACE}})
                create_sites(core, NAMESPACE, sites(*BROKERS))
            plane.kubectl.apply(REPOSITORY / "crds", arguments=["--server-side"])
            plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
            plane.kubectl.apply(topology(kafka))
            yield Stack(plane, kafka)


def topology(kafka: KafkaCluster) -> dict[str, Any]:
    return {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "RackTopology",
        "metadata": {"name": "bench", "namespace": NAMESPACE},
        "spec": {
            "kafka": {"bootstrapServers": kafka.bootstrap()},
            "levels": [
                {"name": "zone", "nodeLabel": "topology.kubernetes.io/zone"},
                {"name": "rack", "nodeLabel": "topology.rackspan.dev/rack"},
            ],
            "brokers": {"podSelector": {"matchLabels": {"app": "kafka"}}},
        },
    }


def topic(name: str, partitions: int, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"topologyRef": {"name": "bench"}, "partitions": partitions, "replicationFactor": replicas},
    }


class Operator:
    """The real process, its CPU seconds, its memory and its own counters."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self._port = free_ports(1)[0]
        self._log = log.open("ab")
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "rackspan",
                "operator",
                f"--kubeconfig={kubeconfig}",
                "--listen-host=127.0.0.1",
                f"--listen-port={self._port}",
                "--lease-identity=benchmark",  # started again after a crash, it has its Lease back at once
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self._ps = psutil.Process(self._process.pid)
        self.peak = 0
        self._watching = threading.Event()
        threading.Thread(target=self._watch_memory, daemon=True).start()

    def _watch_memory(self) -> None:
        with suppress(psutil.Error):
            while not self._watching.wait(0.2):
                self.peak = max(self.peak, self._ps.memory_info().rss)

    @property
    def cpu(self) -> float:
        return _cpu(self._ps)

    @property
    def rss(self) -> int:
        """Resident memory now, in bytes."""
        return int(self._ps.memory_info().rss)

    def counters(self) -> dict[str, float]:
        text = urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10).read().decode()
        return {
            sample.name
            + "".join(f"[{value}]" for key, value in sorted(sample.labels.items()) if key != "le"): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("rackspan") and not sample.name.endswith("_bucket")
        }

    def until(self, condition: Callable[[dict[str, float]], bool], timeout: float = 120) -> float:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with suppress(OSError):
                if condition(self.counters()):
                    return time.perf_counter()
            time.sleep(0.1)
        raise TimeoutError("the operator did not get there; see its log")

    def until_ready(self, timeout: float = 600) -> float:
        """Seconds on the clock when it had learnt of all objects."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with suppress(OSError):  # among them: not ready yet, 503
                urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=10).close()
                return time.perf_counter()
            time.sleep(0.1)
        raise TimeoutError("the operator is not ready; see its log")

    def stop(self) -> None:
        self._watching.set()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._log.close()


class ReadyWatch:
    """Watches KafkaTopics: which are Ready, and at which generation."""

    def __init__(self, stack: Stack) -> None:
        self.ready: dict[str, int] = {}
        self.when: dict[str, float] = {}
        self.over = False
        self._api = stack.plane.api_client()
        self._changed = threading.Condition()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        kafkatopics = client.CustomObjectsApi(self._api)
        while not self.over:  # the API server ends a watch that it finds too slow
            with suppress(urllib3.exceptions.HTTPError):
                stream = kafkatopics.list_namespaced_custom_object(
                    "rackspan.dev", "v1alpha1", NAMESPACE, "kafkatopics", watch=True, _preload_content=False
                )
                for event in events_of(stream.stream(2**16)):
                    self._take(event["object"])

    def _take(self, found: dict[str, Any]) -> None:
        for condition in found.get("status", {}).get("conditions", []):
            if condition["type"] == "Ready" and condition["status"] == "True":
                with self._changed:
                    name = found["metadata"]["name"]
                    self.ready[name] = condition["observedGeneration"]
                    self.when[name] = time.perf_counter()
                    self._changed.notify_all()

    def until(self, count: int, generation: int, timeout: float) -> float:
        """Seconds on the clock when `count` topics were Ready at `generation`."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: sum(value >= generation for value in self.ready.values()) >= count, timeout
            ):
                got = sum(value >= generation for value in self.ready.values())
                raise TimeoutError(f"{got} of {count} topics were Ready in {timeout} s")
        return max(self.when.values())


def events_of(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Events of a watch. It is over with an ERROR, whose object is a Status: begun anew, a watch lists all there is."""
    buffer = b""
    for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for event in map(json.loads, lines):
            if event["type"] == "ERROR":
                return
            yield event


async def in_parallel(stack: Stack, calls: list[tuple[str, str, dict[str, Any]]]) -> None:
    """Send requests (verb, path, body) from CLIENTS connections."""
    rest = Rest(await connect(stack.plane.kubeconfig))
    waiting = iter(calls)

    async def send() -> None:
        for verb, path, body in waiting:
            await (rest.post("bench", path, body) if verb == "POST" else rest.merge_patch("bench", path, body))

    try:
        await asyncio.gather(*(send() for _ in range(CLIENTS)))
    finally:
        await rest.close()


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    topics: int
    seconds: float
    cpu: float | None = None
    memory: int | None = None
    kafka_calls: float | None = None
    kube_calls: float | None = None
    others: dict[str, float] | None = None

    def __str__(self) -> str:
        cells = [
            self.what,
            f"{self.topics:,}",
            f"{self.seconds:.1f}",
            f"{self.topics / self.seconds:.0f}",
            "" if self.cpu is None else f"{self.cpu:.1f}",
            *("" if self.others is None else f"{self.others[who]:.1f}" for who in ("Kafka", "Kubernetes", "client")),
            "" if self.memory is None else f"{self.memory / 2**20:.0f}",
            "" if self.kafka_calls is None else f"{self.kafka_calls:.0f}",
            "" if self.kube_calls is None else f"{self.kube_calls / self.topics:.2f}",
        ]
        return "| " + " | ".join(cells) + " |"


COLUMNS = (
    "topics",
    "seconds",
    "per second",
    "operator CPU s",
    "Kafka CPU s",
    "Kubernetes CPU s",
    "client CPU s",
    "operator peak MiB",
    "Kafka calls",
    "API calls a topic",
)
HEADER = f"| what | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * len(COLUMNS)}"


def _calls(before: dict[str, float], after: dict[str, float], kind: str) -> float:
    prefix = f"rackspan_{kind}_request_seconds_count"
    return sum(value - before.get(name, 0) for name, value in after.items() if name.startswith(prefix))


class Bench:
    def __init__(self, stack: Stack, log: Path) -> None:
        self.stack = stack
        self.log = log
        self.operator = Operator(stack.plane.kubeconfig, log)
        self.operator.until(_connected)
        self.watch = ReadyWatch(stack)

    def stop(self) -> None:
        self.watch.over = True
        self.operator.stop()

    def measure(self, what: str, calls: list[tuple[str, str, dict[str, Any]]], ready: int, generation: int) -> Row:
        before, cpu, others = self.operator.counters(), self.operator.cpu, self.stack.cpu()
        started = time.perf_counter()
        asyncio.run(in_parallel(self.stack, calls))
        sent = time.perf_counter() - started
        seconds = self.watch.until(ready, generation, timeout=900) - started
        spent = self.operator.cpu - cpu
        others = {who: value - others[who] for who, value in self.stack.cpu().items()}
        after = self.operator.counters()
        print(f"  {what}: sent in {sent:.1f} s, Ready in {seconds:.1f} s", file=sys.stderr)
        return Row(
            what,
            len(calls),
            seconds,
            spent,
            self.operator.peak,
            _calls(before, after, "kafka"),
            _calls(before, after, "kubernetes"),
            others,
        )

    def create(self, what: str, prefix: str, count: int, partitions: int) -> Row:
        calls = [("POST", TOPICS_PATH, topic(f"{prefix}-{number}", partitions, 3)) for number in range(count)]
        return self.measure(what, calls, len(self.watch.ready) + count, 1)

    def configure(self, what: str, prefix: str, count: int) -> Row:
        calls = [
            ("PATCH", f"{TOPICS_PATH}/{prefix}-{number}", {"spec": {"config": {"retention.ms": 86400000 + number}}})
            for number in range(count)
        ]
        return self.measure(what, calls, count, 2)

    def restart(self, what: str, count: int) -> Row:
        self.operator.stop()
        self.operator = Operator(self.stack.plane.kubeconfig, self.log)

        def steady(counters: dict[str, float]) -> bool:
            key = "[bench/bench]"
            return (
                counters.get(f"rackspan_topics[ready]{key}", 0) >= count
                and counters.get(f"rackspan_queue_depth{key}", 1) == 0
                and counters.get("rackspan_topics_reconciled_total" + key, 0) >= count
            )

        seconds = self.operator.until(steady, 300) - self.operator.started
        counters = self.operator.counters()
        writes = sum(
            value
            for name, value in counters.items()
            if name.startswith("rackspan_kubernetes_request_seconds_count")
            and ("replace_status" in name or "patch_finalizers" in name)
        )
        print(f"  {what}: {writes:.0f} writes to the API server", file=sys.stderr)
        return Row(
            what,
            count,
            seconds,
            self.operator.cpu,
            self.operator.peak,
            _calls({}, counters, "kafka"),
            _calls({}, counters, "kubernetes"),
        )


def _connected(counters: dict[str, float]) -> bool:
    return any(name.startswith("rackspan_topology_connected") and value > 0 for name, value in counters.items())


def bare(stack: Stack, what: str, prefix: str, count: int, partitions: int, at_once: int) -> Iterator[Row]:
    """The same topics by a bare admin client with explicit assignments, `at_once` topics a call.

    Three rows: until Kafka has said yes to all, until its brokers show them, which is what Ready stands for, and until
    they have made the replicas' logs. That last work follows whoever asked, and takes both cores.
    """
    admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap()})
    brokers = sorted(stack.kafka.racks)
    assignment = [[brokers[(p + r) % len(brokers)] for r in range(3)] for p in range(partitions)]
    before, started = stack.cpu(), time.perf_counter()

    def row(words: str, ended: float) -> Row:
        spent = {who: value - before[who] for who, value in stack.cpu().items()}
        return Row(f"{what}: {words}", count, ended - started, others=spent)

    for first in range(0, count, at_once):
        names = range(first, min(first + at_once, count))
        answers = admin.create_topics(
            [NewTopic(f"{prefix}-{number}", partitions, replica_assignment=assignment) for number in names],
            request_timeout=120,
        )
        for answer in answers.values():
            answer.result()
    yield row("Kafka said yes", time.perf_counter())
    shown = 0
    while shown < 2 * len(brokers):  # any broker may answer
        topics = admin.list_topics(timeout=60).topics
        shown = shown + 1 if sum(name.startswith(prefix) for name in topics) >= count else 0
        time.sleep(0.05)
    yield row("brokers show them", time.perf_counter())
    yield row("brokers have made the logs", stack.calm())


def run(repeat: int, count: int, many: int) -> None:
    print(describe())
    print()
    rows: dict[str, list[Row]] = {}

    def note(row: Row) -> None:
        rows.setdefault(row.what, []).append(row)

    log = Path(tempfile.gettempdir()) / f"rackspan-bench-operator-{os.getpid()}.log"
    for _ in range(repeat):
        with fresh_stack("512m") as stack:
            bench = Bench(stack, log)
            note(bench.create("operator: create, 6 partitions x RF 3", "t", count, 6))
            note(bench.configure("operator: change a config", "t", count))
            note(bench.restart("operator: restart with all in place", count))
            bench.stop()
        with fresh_stack("512m") as stack:
            for row in bare(stack, "bare client, one call a topic", "loop", count, 6, 1):
                note(row)
        with fresh_stack("512m") as stack:
            for row in bare(stack, "bare client, four batched calls", "batch", count, 6, -(-count // 4)):
                note(row)
    if many:
        with fresh_stack("1g") as stack:
            bench = Bench(stack, log)
            note(bench.create("operator: create, 1 partition x RF 3 (once)", "m", many, 1))
            bench.stop()
    print(HEADER)
    for measured in rows.values():
        print(sorted(measured, key=lambda row: row.seconds)[len(measured) // 2])
    print()
    create = statistics.median(row.seconds for row in rows["operator: create, 6 partitions x RF 3"])
    shown, made = (
        statistics.median(row.seconds for row in rows[f"bare client, four batched calls: {words}"])
        for words in ("brokers show them", "brokers have made the logs")
    )
    print(
        f"Kafka alone shows them after {shown:.1f} s, is through after {made:.1f} s; ours are Ready in {create:.1f} s."
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks topics", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the median counts (default 3)")
    parser.add_argument("--topics", type=int, default=1000, help="topics per run (default 1000)")
    parser.add_argument("--many", type=int, default=10_000, help="topics of the one large run, 0 for none")
    options = parser.parse_args(arguments)
    run(options.repeat, options.topics, options.many)


if __name__ == "__main__":
    main()
