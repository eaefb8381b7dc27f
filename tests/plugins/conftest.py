"""Fixtures for tests of the broker plug-ins: the jar, Java programs that call it, and brokers that load it."""

import json
import subprocess
from pathlib import Path

import pytest
from dev.stack.kafka_cluster import PATIENT, KafkaCluster
from dev.stack.plugins import compile_java, ensure_plugins, has_compiler

KAFKAS_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
ASSIGNOR = "dev.rackspan.kafka.RackAwareAssignor"
SHARE_ASSIGNOR = "dev.rackspan.kafka.RackAwareShareAssignor"
NEAREST = "dev.rackspan.kafka.NearestReplicaSelector"
HEARTBEAT_SECONDS = 2
"""The heartbeat interval of consumer groups."""
BY_PLUGIN, BY_KAFKA = {0, 1}, {2, 3}
"""The brokers by their assignor for share groups. Each broker has one assignor."""


@pytest.fixture(scope="session")
def plugins_jar(kafka_distribution) -> Path:
    if not has_compiler(kafka_distribution):
        pytest.skip("no javac on this machine: the plug-ins for brokers have to be compiled")
    return ensure_plugins(kafka_distribution)


@pytest.fixture(scope="session")
def share_groups(kafka_distribution):
    if kafka_distribution.version.startswith("4.1."):
        pytest.skip("share groups are a preview in Kafka 4.1")


@pytest.fixture(scope="session")
def java(kafka_distribution, plugins_jar, tmp_path_factory):
    """Return a function that runs a program of this folder and returns its output.

    Example: `java("ReplicaSelections", argument, given=document)`.
    """
    classes = tmp_path_factory.mktemp("programs")
    compile_java(kafka_distribution, Path(__file__).parent.glob("*.java"), classes, beside=[plugins_jar])
    distribution = kafka_distribution.with_plugins(plugins_jar, classes)

    def ask(program, *arguments, given=None):
        command = distribution.command(
            program,
            *arguments,
            jvm=(
                "-Xmx512m",
                "-XX:TieredStopAtLevel=1",
                "-Dlog4j2.level=OFF",
                "-Dsun.tools.attach.attachTimeout=300000",  # milliseconds; a broker may be slow on a busy machine
            ),
        )
        text = json.dumps(given)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


@pytest.fixture(scope="session")
def brokers(processes, kafka_distribution, plugins_jar) -> KafkaCluster:
    """Start four brokers. Three are in one region: without a replica selector, with Kafka's, and with the plug-in.

    Groups can use Kafka's assignors or the one of the plug-in.
    """
    racks = ["/us/us-1a/r1", "/us/us-1b/r1", "/us/us-1c/r1", "/eu/eu-1a/r2"]
    selectors = [None, KAFKAS_SELECTOR, NEAREST]
    return KafkaCluster.start(
        processes.directory / "plugins-kafka",
        processes,
        kafka_distribution.with_plugins(plugins_jar),
        racks,
        properties={
            **PATIENT,
            "group.consumer.assignors": f"uniform,range,{ASSIGNOR}",
            # A client waits this long for a heartbeat response and then reconnects. A busy machine needs more time.
            "group.consumer.min.heartbeat.interval.ms": "1000",
            "group.consumer.heartbeat.interval.ms": str(1000 * HEARTBEAT_SECONDS),
        },
        broker_properties={
            broker: ({"replica.selector.class": selectors[broker]} if broker < len(selectors) else {})
            | ({"group.share.assignors": SHARE_ASSIGNOR} if broker in BY_PLUGIN else {})
            for broker in range(len(racks))
        },
    )


@pytest.fixture(scope="session")
def counted(java):
    """Return a function that reads a metric of each broker by topic, such as `BytesOutPerSec` (sent to consumers)."""

    def read(cluster, metric):
        pids = {str(pid): broker for broker, pid in cluster.broker_pids().items()}
        return {pids[pid]: bytes_of for pid, bytes_of in java("BrokerBytes", metric, *pids).items()}

    return read
