"""The operator under load: many KafkaTopics at once, on a real API server and a real Kafka with three brokers.

For comparison, a bare client creates and deletes the same topics in the same run: with one call per topic, and in a few
batches.
"""

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient, NewTopic
from dev.paths import REPOSITORY
from dev.stack import assets, kafka_archive, kafka_distribution
from dev.stack.control_plane import ControlPlane
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.nodes import LEVELS, create_sites, sites
from dev.stack.processes import Processes, free_ports
from kubernetes import client
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import results
from benchmarks.contender import RETENTION, Kind, command_line, from_template, plurals_of
from benchmarks.machine import Bystanders, Conditions, cpu_of, describe
from benchmarks.watching import ReadyWatch
from rackspan.kube.rest import Rest, connect

NAMESPACE = "bench"
BROKERS = ("/eu/a/r1", "/eu/b/r1", "/eu/c/r1")
TOPICS_PATH = f"/apis/rackspan.dev/v1alpha1/namespaces/{NAMESPACE}/kafkatopics"
CLIENTS = 16
_BARE = (("one call per topic", "loop", 1), ("four batched calls", "batch", 0))
"""The runs of the bare client: description, prefix of the topics, and topics per call (0 for a quarter of them)."""
_REST_SECONDS = 0.3
"""The pause between topics that are created one by one. The operator has written its last status by then."""
MEMORY = Path("/dev/shm")
"""The directory for the data of Kafka and etcd, if it exists. The time to create 18,000 logs on a shared disk varies by
a factor of two between runs, and is not measured here."""


@dataclass(frozen=True, slots=True)
class Stack:
    plane: ControlPlane
    kafka: KafkaCluster
    kubeconfig: Path
    """It uses a service account, like pods. The API server would verify a client certificate at every request."""

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds so far of Kafka, of Kubernetes, and of this process, the client."""
        spent = {"Kafka": 0.0, "Kubernetes": 0.0, "client": cpu_of([os.getpid()])}
        for name, pid in self.plane.processes.pids().items():
            spent["Kafka" if name.startswith("kafka") else "Kubernetes"] += cpu_of([pid])
        return spent


def calm(cpu: Callable[[], float]) -> float:
    """Wait until `cpu` (CPU seconds so far) takes less than one core for two seconds. Return the start of this time."""
    since, before = time.perf_counter(), cpu()
    while True:
        time.sleep(2)
        now, spent = time.perf_counter(), cpu()
        if spent - before < now - since:
            return since
        since, before = now, spent


@contextmanager
def fresh_stack(heap: str, racks: Sequence[str] = BROKERS) -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="rackspan-bench-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        directory = Path(folder)
        with Processes.attached(directory) as processes:
            distribution = kafka_archive.ensure_archive(kafka_distribution.ensure_distribution())
            plane = ControlPlane.start(directory / "kubernetes", processes, assets.ensure_kubernetes())
            kafka = KafkaCluster.start(directory / "kafka", processes, distribution, racks, heap=heap)
            with plane.api_client() as api:
                core = client.CoreV1Api(api)
                core.create_namespace({"metadata": {"name": NAMESPACE}})
                create_sites(core, NAMESPACE, sites(*racks))
            plane.kubectl.apply(REPOSITORY / "crds", arguments=["--server-side"])
            plane.kubectl.wait_until_served()
            plane.kubectl.apply(topology(kafka))
            yield Stack(plane, kafka, _account(plane))


def _account(plane: ControlPlane) -> Path:
    """Return a kubeconfig with the token of a service account that has all permissions."""
    plane.kubectl("create", "serviceaccount", "operator", f"--namespace={NAMESPACE}")
    owner = f"--serviceaccount={NAMESPACE}:operator"
    plane.kubectl("create", "clusterrolebinding", "operator", "--clusterrole=cluster-admin", owner)
    path = plane.directory / "operator.kubeconfig"
    return plane.cluster.kubeconfig_for_service_account(NAMESPACE, "operator", path)


def topology(kafka: KafkaCluster) -> dict[str, Any]:
    return {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "RackTopology",
        "metadata": {"name": "bench", "namespace": NAMESPACE},
        "spec": {
            "kafka": {"bootstrapServers": kafka.bootstrap()},
            "levels": [{"name": name, "nodeLabel": label} for name, label in LEVELS.items()],
            "brokers": {"podSelector": {"matchLabels": {"app": "kafka"}}},
            "maxDeletionsPerMinute": 100_000,
        },
    }


def topic(name: str, partitions: int, replicas: int, retention_ms: int = RETENTION) -> dict[str, Any]:
    config = {} if retention_ms == RETENTION else {"config": {"retention.ms": retention_ms}}
    return {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "topologyRef": {"name": "bench"},
            "partitions": partitions,
            "replicationFactor": replicas,
            "deletionPolicy": "Delete",
            **config,
        },
    }


OURS = Kind(TOPICS_PATH, topic)


class Process:
    """A measured process: its CPU seconds and memory, including its children."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log.open("ab")
        self.started = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        self._ps = psutil.Process(self._process.pid)
        self.peak = 0
        self._watching = threading.Event()
        threading.Thread(target=self._watch_memory, daemon=True).start()

    def _family(self) -> list[psutil.Process]:
        return [self._ps, *self._ps.children(recursive=True)]

    def _watch_memory(self) -> None:
        with suppress(psutil.Error):
            while not self._watching.wait(0.2):
                self.peak = max(self.peak, self.rss)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def cpu(self) -> float:
        return cpu_of(each.pid for each in self._family())

    @property
    def rss(self) -> int:
        """The current resident memory in bytes."""
        return sum(process.memory_info().rss for process in self._family())

    def counters(self) -> dict[str, float]:
        """Return the counters of the process. Empty here, because only the operator of Rackspan has known counters."""
        return {}

    def check(self) -> None:
        """Raise RuntimeError if the process has ended."""
        code = self._process.poll()
        if code is not None:
            msg = f"{self._process.args!r} ended with code {code}; see {self._log.name}"
            raise RuntimeError(msg)

    def stop(self) -> None:
        self._watching.set()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._log.close()


class Operator(Process):
    """The operator of Rackspan, with its counters."""

    def __init__(self, kubeconfig: Path, log: Path, *options: str) -> None:
        self._port = free_ports(1)[0]
        super().__init__(
            [
                sys.executable,
                "-m",
                "rackspan",
                "operator",
                f"--kubeconfig={kubeconfig}",
                "--listen-host=127.0.0.1",
                f"--listen-port={self._port}",
                "--lease-identity=benchmark",  # after a restart, it regains its Lease immediately
                *options,
            ],
            log,
        )

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"

    def counters(self) -> dict[str, float]:
        text = urllib.request.urlopen(self.url("/metrics"), timeout=10).read().decode()
        return {
            sample.name
            + "".join(f"[{value}]" for key, value in sorted(sample.labels.items()) if key != "le"): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("rackspan") and not sample.name.endswith("_bucket")
        }

    def until(self, condition: Callable[[dict[str, float]], bool], timeout: float = 120) -> float:
        """Wait until the counters fulfil `condition`. Return the time. Raises TimeoutError or RuntimeError."""
        return self._until(lambda: condition(self.counters()), timeout)

    def until_ready(self, timeout: float = 600) -> float:
        """Wait until the operator has listed all objects. Return the time. Raises TimeoutError or RuntimeError."""
        return self._until(self._is_ready, timeout)

    def _is_ready(self) -> bool:
        urllib.request.urlopen(self.url("/readyz"), timeout=10).close()
        return True

    def _until(self, reached: Callable[[], bool], timeout: float) -> float:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            with suppress(OSError):  # includes 503, which means not ready yet
                if reached():
                    return time.perf_counter()
            self.check()
            time.sleep(0.1)
        raise TimeoutError(f"the operator did not reach the expected state in {timeout:g} s; see {self._log.name}")


async def in_parallel(stack: Stack, calls: list[tuple[str, str, dict[str, Any]]]) -> None:
    """Send requests (verb, path, body) from CLIENTS connections."""
    rest = Rest(await connect(stack.kubeconfig))
    waiting = iter(calls)

    send_by = {"POST": rest.post, "PATCH": rest.merge_patch, "DELETE": rest.delete}

    async def send() -> None:
        for verb, path, body in waiting:
            await send_by[verb]("bench", path, body)

    try:
        await asyncio.gather(*(send() for _ in range(CLIENTS)))
    finally:
        await rest.close()


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    topics: int
    seconds: float
    conditions: Conditions
    cpu: float | None = None
    memory: int | None = None
    kafka_calls: float | None = None
    kube_calls: float | None = None
    others: dict[str, float] | None = None

    def cells(self) -> list[results.Cell]:
        return [
            self.what,
            self.topics,
            self.seconds,
            self.topics / self.seconds,
            self.cpu,
            *((self.others or {}).get(who) for who in ("Kafka", "Kubernetes", "client")),
            None if self.memory is None else self.memory / 2**20,
            self.kafka_calls,
            None if self.kube_calls is None else self.kube_calls / self.topics,
        ]


COLUMNS = (
    ("what", ""),
    ("topics", ",d"),
    ("seconds", ".1f"),
    ("per second", ".0f"),
    ("operator CPU s", ".1f"),
    ("Kafka CPU s", ".1f"),
    ("Kubernetes CPU s", ".1f"),
    ("client CPU s", ".1f"),
    ("operator peak MiB", ".0f"),
    ("Kafka calls", ".0f"),
    ("API calls per topic", ".2f"),
)
LATENCY_COLUMNS = (("what", ""), ("topics", ",d"), ("median s", ".2f"), ("p99 s", ".2f"), ("max s", ".2f"))


def _calls(before: dict[str, float], after: dict[str, float], kind: str) -> float:
    prefix = f"rackspan_{kind}_request_seconds_count"
    return sum(value - before.get(name, 0) for name, value in after.items() if name.startswith(prefix))


class Bench:
    """An operator of any kind on a new stack. The names of all its rows begin with `label`."""

    def __init__(self, stack: Stack, process: Process, kind: Kind, label: str) -> None:
        self.stack = stack
        self.process = process
        self.kind = kind
        self.label = label
        self.watch = ReadyWatch(stack.plane.api_client(), kind.path, self._check)

    def stop(self) -> None:
        self.watch.over = True
        self.process.stop()

    def _check(self) -> None:
        self.process.check()  # the current process, because the operator may have been restarted

    def _own_cpu(self) -> float:
        return sum(self.stack.cpu().values()) + self.process.cpu

    def measure(self, what: str, calls: list[tuple[str, str, dict[str, Any]]], until: Callable[[], float]) -> Row:
        """Send requests and measure until `until` returns. Wait first until brokers have finished earlier work."""
        calm(self._own_cpu)
        before, cpu, others = self.process.counters(), self.process.cpu, self.stack.cpu()
        bystanders, started = Bystanders(self._own_cpu), time.perf_counter()
        asyncio.run(in_parallel(self.stack, calls))
        sent = time.perf_counter() - started
        seconds = until() - started
        seen, spent = bystanders.seen(), self.process.cpu - cpu
        others = {who: value - others[who] for who, value in self.stack.cpu().items()}
        after = self.process.counters()
        print(f"  {self.label}: {what}: sent in {sent:.1f} s, done in {seconds:.1f} s", file=sys.stderr)
        return Row(
            f"{self.label}: {what}",
            len(calls),
            seconds,
            seen,
            spent,
            self.process.peak,
            _calls(before, after, "kafka") if after else None,
            _calls(before, after, "kubernetes") if after else None,
            others,
        )

    def create(self, what: str, prefix: str, count: int, partitions: int) -> Row:
        names = _names(prefix, count)
        calls = [("POST", self.kind.path, self.kind.body(name, partitions, 3, RETENTION)) for name in names]
        return self.measure(what, calls, lambda: self.watch.until_ready(names, 1, 900))

    def configure(self, what: str, prefix: str, count: int, partitions: int) -> Row:
        names = _names(prefix, count)
        bodies = (self.kind.body(name, partitions, 3, 86_400_000 + at) for at, name in enumerate(names))
        calls = [
            ("PATCH", f"{self.kind.path}/{name}", {"spec": body["spec"]})
            for name, body in zip(names, bodies, strict=True)
        ]
        return self.measure(what, calls, lambda: self.watch.until_ready(names, 2, 900))

    def delete(self, what: str, prefix: str, count: int) -> Row:
        names = _names(prefix, count)
        calls = [("DELETE", f"{self.kind.path}/{name}", {}) for name in names]
        return self.measure(what, calls, lambda: self.watch.until_gone(names, 900))

    def one_by_one(self, what: str, prefix: str, count: int) -> tuple[list[results.Cell], Conditions]:
        """Create objects one by one, each after a pause. Measure the seconds until each object is Ready."""
        bystanders = Bystanders(self._own_cpu)
        _, _, group, version, _, namespace, plural = self.kind.path.split("/")
        took = []
        with self.stack.plane.api_client() as api:
            objects = client.CustomObjectsApi(api)
            for name in _names(prefix, count):
                body = self.kind.body(name, 1, 3, RETENTION)
                started = time.perf_counter()
                objects.create_namespaced_custom_object(group, version, namespace, plural, body)
                took.append(self.watch.until_ready([name], 1, 120) - started)
                time.sleep(_REST_SECONDS)
        took.sort()
        p99 = took[min(count - 1, round(0.99 * count) - 1)]
        return [f"{self.label}: {what}", count, statistics.median(took), p99, took[-1]], bystanders.seen()


class OurBench(Bench):
    """The operator of Rackspan, which can also be restarted."""

    def __init__(self, stack: Stack, log: Path) -> None:
        self.log = log
        self.process: Operator = Operator(stack.kubeconfig, log)
        self.process.until(connected)
        super().__init__(stack, self.process, OURS, "operator")

    def restart(self, what: str, count: int) -> Row:
        self.process.stop()
        self.process = Operator(self.stack.kubeconfig, self.log)
        bystanders = Bystanders(self._own_cpu)

        def steady(counters: dict[str, float]) -> bool:
            key = "[bench/bench]"
            return (
                counters.get(f"rackspan_topics[ready]{key}", 0) >= count
                and counters.get(f"rackspan_queue_depth{key}", 1) == 0
                and counters.get("rackspan_topics_reconciled_total" + key, 0) >= count
            )

        seconds = self.process.until(steady, 300) - self.process.started
        seen, counters = bystanders.seen(), self.process.counters()
        writes = sum(
            value
            for name, value in counters.items()
            if name.startswith("rackspan_kubernetes_request_seconds_count")
            and ("replace_status" in name or "patch_finalizers" in name)
        )
        print(f"  {what}: {writes:.0f} writes to the API server", file=sys.stderr)
        return Row(
            f"{self.label}: {what}",
            count,
            seconds,
            seen,
            self.process.cpu,
            self.process.peak,
            _calls({}, counters, "kafka"),
            _calls({}, counters, "kubernetes"),
        )


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def connected(counters: dict[str, float]) -> bool:
    return any(name.startswith("rackspan_topology_connected") and value > 0 for name, value in counters.items())


@contextmanager
def _stopping(bench: Bench) -> Iterator[Bench]:
    try:
        yield bench
    finally:
        bench.stop()


class BareClient:
    """An admin client that creates and deletes the same topics with explicit assignments, `at_once` topics per call."""

    def __init__(self, stack: Stack, label: str, names: Sequence[str], at_once: int) -> None:
        self.stack = stack
        self.label = label
        self.names = names
        self.calls = [names[first : first + at_once] for first in range(0, len(names), at_once)]
        self.admin = AdminClient({"bootstrap.servers": stack.kafka.bootstrap()})

    def create(self, partitions: int) -> Iterator[Row]:
        brokers = sorted(self.stack.kafka.racks)
        assignment = [[brokers[(p + r) % len(brokers)] for r in range(3)] for p in range(partitions)]

        def ask(names: Sequence[str]) -> dict[str, Future[None]]:
            topics = [NewTopic(name, partitions, replica_assignment=assignment) for name in names]
            return self.admin.create_topics(topics, request_timeout=120)

        return self._measure("create", ask, len(self.names))

    def delete(self) -> Iterator[Row]:
        return self._measure("delete", lambda names: self.admin.delete_topics(list(names), request_timeout=120), 0)

    def _measure(self, what: str, ask: Callable[[Sequence[str]], dict[str, Future[None]]], left: int) -> Iterator[Row]:
        """Yield three rows: until Kafka has accepted all requests, until brokers show them, and until brokers are idle.

        The second one corresponds to Ready, or to the deletion of an object. The third one includes the work on the
        logs of replicas, which takes both cores.
        """
        bystanders = Bystanders(lambda: sum(self.stack.cpu().values()))
        before, started = self.stack.cpu(), time.perf_counter()

        def row(words: str, ended: float) -> Row:
            spent = {who: value - before[who] for who, value in self.stack.cpu().items()}
            name = f"bare client, {self.label}: {what}, {words}"
            return Row(name, len(self.names), ended - started, bystanders.seen(), others=spent)

        for some in self.calls:
            for answer in ask(some).values():
                answer.result()
        yield row("accepted by Kafka", time.perf_counter())
        every, shown = set(self.names), 0
        while shown < 2 * len(self.stack.kafka.racks):  # any broker may respond
            there = every.intersection(self.admin.list_topics(timeout=60).topics)
            shown = shown + 1 if len(there) == left else 0
            time.sleep(0.05)
        yield row("shown by brokers", time.perf_counter())
        yield row("brokers idle", calm(lambda: self.stack.cpu()["Kafka"]))


@dataclass(frozen=True, slots=True)
class Contender:
    """Another operator: its command, its CustomResourceDefinitions, and the manifest of one topic."""

    command: str
    definitions: Sequence[Path]
    template: Path
    setup: Sequence[Path] = ()
    """Files of further required objects, for `kubectl apply`."""

    def start(self, stack: Stack, log: Path) -> Bench:
        kubectl, bootstrap = stack.plane.kubectl, stack.kafka.bootstrap()
        for path in self.definitions:
            kubectl.apply(path, arguments=["--server-side"])
        kubectl.wait_until_served()
        for path in self.setup:
            kubectl("apply", "-f", str(path), "-n", NAMESPACE)
        plurals = plurals_of(kubectl("get", "crd", "-o", "json"))
        kind = from_template(self.template.read_text(), plurals, NAMESPACE, bootstrap=bootstrap)
        command = command_line(self.command, stack.kubeconfig, NAMESPACE, bootstrap)
        bench = Bench(stack, Process(command, log), kind, "contender")
        with (
            bench.stack.plane.api_client() as api
        ):  # the operator is started and connected when it has created one topic
            _, _, group, version, _, namespace, plural = kind.path.split("/")
            body = kind.body("first", 1, 3, RETENTION)
            client.CustomObjectsApi(api).create_namespaced_custom_object(group, version, namespace, plural, body)
        bench.watch.until_ready(["first"], 1, 300)
        return bench


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the measurements. `bare` includes the bare client, for comparison."""

    repeat: int
    topics: int
    many: int
    singles: int
    bare: bool


def course(bench: Bench, sizes: Sizes) -> Iterator[Row]:
    """Yield the rows that are measured for each operator, on a new stack."""
    yield bench.create("create, 6 partitions x RF 3", "t", sizes.topics, 6)
    yield bench.configure("change a config", "t", sizes.topics, 6)
    if isinstance(bench, OurBench):
        yield bench.restart("restart with all in place", sizes.topics)
    yield bench.delete("delete", "t", sizes.topics)


@dataclass(frozen=True, slots=True)
class Found:
    """The rows so far: by name, with one row per repetition, and those of topics that are created one by one."""

    rows: dict[str, list[Row]]
    alone: list[tuple[list[results.Cell], Conditions]]

    def note(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.rows.setdefault(row.what, []).append(row)

    def results(self) -> Iterator[results.Result]:
        """Yield the results. For each name, the row is that with the median of seconds."""
        medians = [sorted(measured, key=lambda row: row.seconds)[len(measured) // 2] for measured in self.rows.values()]
        yield results.new("topics", COLUMNS, [row.cells() for row in medians], [row.conditions for row in medians])
        if self.alone:
            cells, conditions = zip(*self.alone, strict=True)
            yield results.new("latency", LATENCY_COLUMNS, cells, conditions)


def run(sizes: Sizes, contender: Contender | None = None) -> Found:
    """Measure Rackspan and the contender in turns, each on a new stack."""
    found = Found({}, [])
    log = Path(tempfile.gettempdir()) / f"rackspan-bench-operator-{os.getpid()}.log"
    starts: list[Callable[[Stack], Bench]] = [lambda stack: OurBench(stack, log)]
    if contender is not None:
        starts.append(lambda stack: contender.start(stack, log))
    for turn in range(sizes.repeat):
        for start in starts:
            with fresh_stack("512m") as stack, _stopping(start(stack)) as bench:
                if sizes.singles and turn == 0:
                    found.alone.append(bench.one_by_one("one by one, 1 partition x RF 3", "single", sizes.singles))
                found.note(course(bench, sizes))
        for label, prefix, at_once in _BARE if sizes.bare else ():
            with fresh_stack("512m") as stack:
                names = _names(prefix, sizes.topics)
                bare = BareClient(stack, label, names, at_once or -(-sizes.topics // 4))
                found.note(bare.create(6))
                found.note(bare.delete())
    if sizes.many:
        with fresh_stack("1g") as stack, _stopping(OurBench(stack, log)) as bench:
            found.note([bench.create("create, 1 partition x RF 3 (once)", "m", sizes.many, 1)])
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks topics", description=__doc__)
    parser.add_argument("--repeat", type=int, default=3, help="number of runs; the result is the median (default: 3)")
    parser.add_argument("--topics", type=int, default=1000, help="topics per run (default: 1000)")
    parser.add_argument("--many", type=int, default=10_000, help="topics of one large run, 0 for none (default: 10000)")
    parser.add_argument("--singles", type=int, default=100, help="topics that are created one by one (default: 100)")
    parser.add_argument("--no-bare", action="store_true", help="without the bare client")
    parser.add_argument("--quick", action="store_true", help="300 topics once, 30 one by one, no bare client")
    parser.add_argument("--save", action="store_true", help="write the result to benchmarks/results")
    other = parser.add_argument_group("another operator", "measured in turns with Rackspan, see benchmarks/results")
    other.add_argument(
        "--contender", metavar="CMD", help="its command, with the variables $kubeconfig, $namespace, $bootstrap"
    )
    other.add_argument(
        "--crd", type=Path, action="append", default=[], help="its CustomResourceDefinitions, a file or directory"
    )
    other.add_argument("--setup", type=Path, action="append", default=[], help="file with further required objects")
    other.add_argument(
        "--manifest-template", type=Path, help="manifest of one topic, with $name, $partitions, $retention_ms, ..."
    )
    options = parser.parse_args(arguments)
    if (options.contender is None) != (options.manifest_template is None):
        parser.error("--contender and --manifest-template must be used together")
    contender = (
        Contender(options.contender, options.crd, options.manifest_template, options.setup)
        if options.contender
        else None
    )
    asked = Sizes(options.repeat, options.topics, options.many, options.singles, bare=not options.no_bare)
    print(describe(), end="\n\n", flush=True)
    for result in run(Sizes(1, 300, 0, 30, bare=False) if options.quick else asked, contender).results():
        print(result.table(), flush=True)
        if options.save:
            print(f"written to {results.save(result)}\n")


if __name__ == "__main__":
    main()
