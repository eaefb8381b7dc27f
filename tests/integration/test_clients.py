"""The clients of examples/clients, run as in their manifests: brokers see the rack of the node of each client.

A replacement for the kubelet runs the init container of a pod and then its container, with directories as volumes. The
tests provide the programs of the images: `rackspan`, Python, Kafka's scripts (its jars are here) and an application.
"""

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec
from dev.paths import REPOSITORY
from dev.stack.kafka_cluster import FAST_START
from dev.stack.kafka_distribution import find_client_jars
from dev.stack.nodes import SIX_BROKERS
from dev.stack.plugins import compile_java, has_compiler
from dev.stack.processes import free_ports
from dev.waiting import eventually
from tests.support.topics import Topics
from tests.support.waiting import until
from tests.support.writes import write_locality

from rackspan.core.rack_file import rack_file
from rackspan.core.snapshot import tree_of
from rackspan.kafka.cluster_snapshot import take_snapshot
from rackspan.kafka.command_config import command_properties
from rackspan.kafka.consumer_groups import read_consumer_groups
from rackspan.reports.group_rows import group_rows

SITE = SIX_BROKERS[1]
ASSIGNMENT = [[3, SITE.broker], [4, SITE.broker], [0, SITE.broker]]
"""Leaders in other racks, and a follower in the rack of the clients."""
SCRIPTS = {
    "connect-distributed.sh": "org.apache.kafka.connect.cli.ConnectDistributed",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning"),  # no other call returns rack ids
    pytest.mark.stack,
]


@pytest.fixture(scope="module")
def topic(kafka):
    made, name = Topics(kafka.admin()), f"clients-{secrets.token_hex(4)}"
    made.create(name, ASSIGNMENT)
    yield name
    made.admin.delete_topics([name])[name].result(120)


@pytest.fixture(scope="module")
def kafka_with_clients(kafka_distribution):
    """Kafka with the jars of Kafka Streams."""
    jars = find_client_jars()
    if not jars:
        pytest.fail("Kafka Streams: not on this machine yet; run `make assets` first", pytrace=False)
    return kafka_distribution.with_plugins(*jars)


@pytest.fixture(scope="module")
def images(tmp_path_factory, kafka_with_clients):
    """A folder with the programs of the images."""
    folder = tmp_path_factory.mktemp("images")
    for script, main_class in SCRIPTS.items():
        put_script(folder / script, kafka_with_clients.with_plugins(*kafka_with_clients.plugins, folder), main_class)
    return folder


@pytest.fixture
def compiled(images, kafka_with_clients):
    """A function that compiles a Java class of this directory into the folder of the images."""

    def compile_class(name):
        if not has_compiler(kafka_with_clients):
            pytest.skip(f"no javac on this machine: {name}.java has to be compiled")
        source = Path(__file__).with_name(f"{name}.java")
        compile_java(kafka_with_clients, [source], images, beside=kafka_with_clients.plugins)

    return compile_class


@pytest.fixture
def totals(compiled, images, kafka_with_clients, topic):
    """The application of the Streams example, as a script that its image starts."""
    compiled("Totals")
    put_script(images / "totals", kafka_with_clients.with_plugins(*kafka_with_clients.plugins, images), "Totals", topic)


@pytest.fixture
def sink(compiled, images):
    """The name of a sink connector that Connect finds on its class path."""
    compiled("Discard")
    services = images / "META-INF" / "services"
    services.mkdir(parents=True, exist_ok=True)
    (services / "org.apache.kafka.connect.sink.SinkConnector").write_text("Discard\n")
    return "Discard"


def put_script(path, distribution, main_class, *arguments):
    java = distribution.command(main_class, *arguments, jvm=("-Xmx256m", *FAST_START))
    path.write_text(f'#!/bin/sh\nexec {shlex.join(java)} "$@"\n')
    path.chmod(0o755)


class Pod:
    """A pod of a manifest on the node of SITE. `start` runs it. `words` are replaced in its texts and its files."""

    def __init__(self, example, directory, images, words):
        documents = list(yaml.safe_load_all((REPOSITORY / "examples/clients" / f"{example}.yaml").read_text()))
        (deployment,) = [one for one in documents if one["kind"] == "Deployment"]
        self.spec = deployment["spec"]["template"]["spec"]
        self.directory, self.images, self.words = directory, images, words
        files = {one["metadata"]["name"]: one["data"] for one in documents if one["kind"] == "ConfigMap"}
        racks = {site.node: site.path for site in SIX_BROKERS}
        files["main-racks"] = {"nodes": rack_file(racks, "The rack id of every node.")}
        for volume in self.spec["volumes"]:
            (directory / volume["name"]).mkdir(parents=True)
            for name, text in files.get(volume.get("configMap", {}).get("name"), {}).items():
                (directory / volume["name"] / name).write_text(self._said(text))

    def start(self, processes, name):
        (init,), (container,) = self.spec["initContainers"], self.spec["containers"]
        subprocess.run(self._command(init), env=self._environment(init), check=True, timeout=600)
        processes.start(name, self._command(container), env=self._environment(container), cwd=self.directory)

    def _command(self, container):
        if "command" not in container:  # then the image has the command
            return [str(self.images / re.search(r"([^/]+):", container["image"])[1])]
        text = self._here(container["args"][0], container).replace("/opt/kafka/bin", str(self.images))
        return [*container["command"], text]

    def _environment(self, container):
        said = {one["name"]: self._here(one["value"], container) for one in container.get("env", ()) if "value" in one}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "NODE_NAME": SITE.node, **said}

    def _here(self, text, container):
        text = self._said(text)
        for mount in container["volumeMounts"]:
            text = re.sub(rf"(?<!\S){mount['mountPath']}(?=/)", str(self.directory / mount["name"]), text)
        return text

    def _said(self, text):
        for word, other in self.words.items():
            text = text.replace(word, other)
        return text


@pytest.fixture
def run(kafka, processes, topic, images, tmp_path):
    """A function that runs the pod of an example with the brokers and topic of the tests until the test ends."""
    started = []

    def run(example, words=None):
        every = {"kafka-bootstrap.kafka:9092": kafka.bootstrap(), "orders": topic, **(words or {})}
        pod = Pod(example, tmp_path / example, images, every)
        name = f"{example}-{topic}"
        pod.start(processes, name)
        started.append(name)
        return name

    yield run
    for name in started:
        processes.kill(name)


def whole(kafka, processes, process, group):
    """Return all groups and this group once it consumes all partitions of the topic and no data is missing, or None."""
    processes.check(process)
    seen = read_consumer_groups(command_properties(kafka.bootstrap()))
    if any(word in text for text in seen.warnings for word in (group, "client.rack", "replica.selector.class")):
        return None
    found = next((one for one in seen.groups if one.name == group), None)
    count = sum(len(numbers) for member in found.members for numbers in member.partitions.values()) if found else 0
    return (seen, found) if count == len(ASSIGNMENT) else None


def reads_near(kafka, processes, process, group):
    """Wait until the group consumes the topic, then check that its members are and read in the rack of the node."""
    having = f"group {group} to have the topic"
    seen, found = until(lambda: whole(kafka, processes, process, group), having)
    assert {member.client_rack for member in found.members} == {SITE.path}
    snapshot = take_snapshot(command_properties(kafka.bootstrap())).snapshot
    tree = tree_of(snapshot.brokers, ("region", "zone", "rack"))
    (row,) = (one for one in group_rows(seen.groups, snapshot, tree, {}, seen.selector) if one.group == group)
    assert (row.partitions, row.near, row.reads_near) == (len(ASSIGNMENT),) * 3


def test_confluent_kafka_consumer_uses_the_rack_of_its_node(kafka, processes, run):
    reads_near(kafka, processes, run("confluent-kafka"), "reports")


def test_java_consumer_uses_the_rack_of_its_node(kafka, kafka_distribution, processes, run):
    earlier = {"--command-config": "--consumer.config"} if kafka_distribution.version < "4.2" else {}  # KIP-1147
    reads_near(kafka, processes, run("java", earlier), "audit")


@pytest.mark.parametrize(
    ("leaders", "written"),
    [((SITE.broker, 0, 4), {0}), ((0, 3, 4), {0, 1, 2})],
    ids=["a leader in the rack", "a leader in another rack of the zone"],
)
def test_java_producer_writes_only_to_leaders_in_its_rack_if_there_are_any(
    kafka, kafka_distribution, processes, run, leaders, written
):
    if kafka_distribution.version < "4.4":
        pytest.skip(f"Kafka {kafka_distribution.version} has no partitioner.rack.aware")
    made, name = Topics(kafka.admin()), f"heartbeats-{secrets.token_hex(4)}"
    made.create(name, [[leader] for leader in leaders])
    # A producer changes the partition with each batch.
    producer = run("java-producer", {"orders": name, "sleep 1": "sleep 0.1", "--topic": "--batch-size 1 --topic"})
    partitions = [TopicPartition(name, number) for number in range(len(leaders))]

    def ends():
        processes.check(producer)
        found = made.admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()))
        return [found[one].result(300).offset for one in partitions]

    last = until(lambda: sum(found := ends()) >= 60 and found, "60 records")
    assert {number for number, end in enumerate(last) if end} == written
    found = write_locality(kafka.bootstrap(), name, SITE.path)
    assert found.near_by_rack == sum(leaders[number] == SITE.broker for number in written) / len(written)
    made.admin.delete_topics([name])[name].result(120)


def test_sink_connector_uses_the_rack_of_its_worker_node(kafka, processes, run, topic, sink):
    (port,) = free_ports(1)
    here = [f"listeners=http://127.0.0.1:{port}", "plugin.discovery=service_load"]
    small = ["offset.storage.partitions=1", "status.storage.partitions=1"]
    own = {f"connect-{kind}": f"{topic}-{kind}" for kind in ("configs", "offsets", "status")}
    worker = run("connect", {"group.id=connect": "\n".join(["group.id=connect", *here, *small]), **own})
    connector = {"connector.class": sink, "topics": topic}
    asked = Request(
        f"http://127.0.0.1:{port}/connectors/warehouse/config",
        json.dumps(connector).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )

    def accepted():
        processes.check(worker)
        with urlopen(asked, timeout=300) as answer:
            return answer.status

    try:
        eventually(accepted, "the worker to take a connector", interval=0.5, retry_on=OSError)
        reads_near(kafka, processes, worker, "connect-warehouse")
    finally:
        processes.kill(worker)
        admin = kafka.admin()  # its futures need a reference to it
        for deleted in admin.delete_topics(list(own.values())).values():
            deleted.exception(300)


def test_all_consumers_of_a_streams_application_use_the_rack_of_its_node(kafka, processes, run, totals):
    application = run("streams")
    reads_near(kafka, processes, application, "totals")
    told = processes.log(application).read_text()
    assert re.findall(r"client\.id = \S+-restore-consumer\s+client\.rack = (\S+)", told) == [SITE.path]


def test_streams_group_has_the_racks_that_its_members_report(kafka, kafka_distribution, processes, run, totals):
    if kafka_distribution.version < "4.2":
        pytest.skip(f"streams groups are a preview in Kafka {kafka_distribution.version}")
    file = "> /rack/streams.properties"
    more = r"group.protocol=streams\napplication.id=totals-by-brokers\nclient.rack=" + SITE.path
    application = run("streams", {file: f"{file}; printf '{more}\\n' >{file}"})
    if kafka_distribution.version >= "4.3":
        reads_near(kafka, processes, application, "totals-by-brokers")
        return
    group = until(lambda: whole(kafka, processes, application, "totals-by-brokers"), "the group")[1]
    assert not group.racks_seen  # clients before 4.3 do not send it
