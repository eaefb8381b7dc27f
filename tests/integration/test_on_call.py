"""The on-call page: the test creates each situation on real servers and compares the output of the commands."""

import re
import secrets
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from dev.paths import REPOSITORY
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.nodes import ZONE_LABEL, sites
from kubernetes import client
from tests.support.objects import GROUP, broker_pods
from tests.support.pages import shell, typed
from tests.support.topics import Topics
from tests.support.waiting import until

PAGE = REPOSITORY / "docs" / "on-call.md"
SITES = sites("/eu/eu-1a/r1", "/eu/eu-1a/r2", "/eu/eu-1b/r1", "/eu/eu-1b/r2")
TOPOLOGY = "prod"
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HASH = re.compile(r"\b[0-9a-f]{8}(?:[0-9a-f]{24})?\b")
_VOLATILE = (
    (re.compile(r"\b(?<=cluster )[\w-]{22}"), "ID"),
    (re.compile(r"(?:\d{4}-\d\d-\d\d )?\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b(?:\d+m)?\d+s\b|\b\d+m\b"), "AGE"),
    (re.compile(r"\b[\d.,]+ MiB(?!/s)"), "BYTES"),
    (re.compile(r"127\.0\.0\.1:\d+"), "BROKER"),
)


def plain(printed):
    """Return the words of an output with placeholders for variable parts. Lines wrap differently for longer names.

    Hashes get numbers, so that equal hashes stay equal.
    """
    hashes: dict[str, int] = {}
    printed = _HASH.sub(lambda found: f"HASH{hashes.setdefault(found[0][:8], len(hashes))}", printed)
    for pattern, word in _VOLATILE:
        printed = pattern.sub(word, printed)
    return " ".join(printed.split())


def commands(page):
    """Yield each heading with its commands and their documented output."""
    for section in page.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        yield heading, [*typed("".join(_CONSOLE.findall(text)))]


@pytest.fixture(scope="module")
def own_kafka(processes, kafka_distribution):
    racks = {site.broker: site.path for site in SITES}
    cluster = KafkaCluster.start(processes.directory / "on-call-kafka", processes, kafka_distribution, racks)
    yield cluster
    cluster.destroy()


@pytest.fixture
def four_sites(api_client, namespace):
    with broker_pods(client.CoreV1Api(api_client), namespace, SITES):
        yield


class World:
    """Four brokers in two zones, two topics, one with an explicit assignment, and the situations of the page."""

    def __init__(self, objects, kafka, operator):
        self.objects, self.kafka, self._operator = objects, kafka, operator
        self._topics, self._core = Topics(kafka.admin()), client.CoreV1Api(objects.api)
        self._of_prod = {"topologyRef": {"name": TOPOLOGY}, "replicationFactor": 2}
        self._add("orders", [[0, 2], [1, 3], [2, 0], [3, 1]])
        self._add("payments", [[3, 0]], placement={"assignment": [[3, 0]]})
        objects.create_topology(kafka.bootstrap(), TOPOLOGY, reassignment={"throttle": 10 << 20})
        self.until_at_rest()

    def until_at_rest(self):
        """Wait until both topics are ready."""
        for name in ("orders", "payments"):
            self.objects.until_ready(name)

    def _add(self, name, rows, **spec):
        """Create a topic with 4 MB in each partition."""
        there = self.objects.kafka_name(name)
        self._topics.create(there, rows)
        producer = Producer(self.kafka.client_config())
        for partition in range(len(rows)):
            for _ in range(4):
                producer.produce(there, secrets.token_bytes(900_000), partition=partition)
        assert producer.flush(300) == 0
        self.objects.create_topic(name, partitions=len(rows), **self._of_prod, **spec)

    def _label(self, node, label, value):
        self._core.patch_node(f"{self.objects.namespace}-{node}", {"metadata": {"labels": {label: value}}})

    @contextmanager
    def a_broker_is_dead(self):
        self.kafka.stop_broker(3)
        yield
        self.kafka.start_broker(3)

    @contextmanager
    def a_node_says_another_zone(self):
        self._label("node-1", ZONE_LABEL, "eu-1b")
        yield
        self._label("node-1", ZONE_LABEL, "eu-1a")

    @contextmanager
    def a_plan_waits_for_approval(self):
        self._add("clicks", [[0, 1], [2, 3]])
        yield

    @contextmanager
    def another_plan_was_approved(self):
        before = self.objects.until(
            "RackTopology", TOPOLOGY, lambda found: found["status"].get("plan"), "to have a plan"
        )
        self._add("views", [[0, 1]])
        name, annotations = f"{GROUP}/approve-plan", {}
        self.objects.until(
            "RackTopology", TOPOLOGY, lambda found: found["status"]["plan"]["hash"] != before["status"]["plan"]["hash"]
        )
        annotations[name] = before["status"]["plan"]["hash"]
        self.objects.patch("RackTopology", TOPOLOGY, {"metadata": {"annotations": annotations}})
        yield
        self.objects.patch("RackTopology", TOPOLOGY, {"metadata": {"annotations": {name: None}}})
        for name in ("clicks", "views"):
            self.objects.delete("KafkaTopic", name)

    @contextmanager
    def a_broker_is_drained_that_a_topic_is_pinned_to(self):
        self.objects.change_topology(TOPOLOGY, drainBrokers=[3])
        yield
        self.objects.change_topology(TOPOLOGY, drainBrokers=None)
        self.until_at_rest()
        self.objects.until("RackTopology", TOPOLOGY, lambda found: not found["status"].get("plan"), "to need no plan")

    @contextmanager
    def kafka_is_away(self):
        self.kafka.destroy()  # in an orderly stop the operator would see brokers go offline one by one
        yield
        self.kafka.resume()

    @contextmanager
    def no_operator_runs(self):
        self.objects.until("RackTopology", TOPOLOGY, lambda one: one["status"]["state"] == "InSync", "to be in sync")
        self._operator.kill()
        yield
        self._operator.start()


@pytest.mark.nightly
def test_commands_of_the_on_call_page_print_the_documented_output(
    objects, own_kafka, operator, four_sites, control_plane, tmp_path
):
    world = World(objects, own_kafka, operator)
    lease = objects.topology(TOPOLOGY)["status"]["lease"]
    run = shell(control_plane, tmp_path, Path(sys.executable).with_name("rackspan"))

    def printed(command):
        command = command.replace("kafka/prod", f"{objects.namespace}/prod").replace(
            "-n kafka", f"-n {objects.namespace}"
        )
        told = run(command).replace(f"{objects.namespace}-", "").replace(f"{objects.namespace}.", "")
        told = told.replace(lease, "rackspan/rackspan").replace(f"{operator.name} holds", "rackspan-0 holds")
        told = told.replace(f"--namespace {lease.partition('/')[0]}", "--namespace rackspan")
        return told.replace(objects.namespace, "kafka")

    for heading, asked in commands(PAGE.read_text()):
        with getattr(world, re.sub(r"\W", "_", heading.lower()))():
            for command, wanted in asked:
                told = [""]

                def agrees(command=command, wanted=wanted, told=told):
                    told.append(plain(printed(command)))
                    return told[-1] == plain(wanted)

                with suppress(TimeoutError):  # the assertion below shows the difference
                    until(agrees)
                assert told[-1] == plain(wanted), f"{heading}: {command}"
