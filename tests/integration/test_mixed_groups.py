"""Classic groups with consumers of several libraries: the first member is the leader and assigns partitions."""

import re
import secrets
import threading

import pytest
from dev.stack.kafka_cluster import FAST_START
from dev.stack.nodes import SIX_BROKERS
from dev.waiting import eventually
from tests.support.python_consumers import python_consumer
from tests.support.topics import move

from rackspan.core.snapshot import tree_of
from rackspan.kafka.client_assignors import RackAwareRange
from rackspan.kafka.cluster_snapshot import take_snapshot
from rackspan.kafka.command_config import command_properties
from rackspan.kafka.consumer_groups import read_consumer_groups
from rackspan.reconcile.failures import FailureError
from rackspan.reports.group_rows import group_rows

EU, US = SIX_BROKERS[0].path, SIX_BROKERS[3].path
ASSIGNMENT = [[3, 4], [0, 3], [0, 1], [2, 0]]
"""Of each of two topics: partition 0 is near only US, 1 near both, 2 and 3 near only EU."""
pytestmark = [
    pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning"),  # no other call returns rack ids
    pytest.mark.stack,
]


class Range(RackAwareRange):
    """An assignor that records the number of members of each assignment."""

    def __init__(self, rack):
        super().__init__(rack)
        self.assigned = []

    def assign(self, cluster, members):
        self.assigned.append(len(members))
        return super().assign(cluster, members)


class InPython:
    """A consumer of kafka-python in EU that polls in a thread until it is closed."""

    def __init__(self, kafka, group, topics, client_id):
        self.client_id, self.range = client_id, Range(EU)
        self._consumer = python_consumer(kafka.bootstrap(), group, topics, self.range, EU, client_id=client_id)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self):
        while not self._ended.is_set():
            self._consumer.poll(timeout_ms=200)
        self._consumer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join(60)


class Group:
    """A group as reported by brokers, and its two topics."""

    def __init__(self, kafka, topics):
        self.kafka, self.topics, self.name = kafka, topics, topics[0]

    def becomes(self, near, **read):
        """Wait until clients read these partitions of both topics and `near` of them are near their reader."""
        wanted = {client: dict.fromkeys(self.topics, numbers) for client, numbers in read.items()}

        def settled():
            assert self._seen() == (wanted, near)
            return True

        eventually(settled, "the group to settle", interval=0.2, retry_on=(AssertionError, FailureError))

    def _seen(self):
        seen = read_consumer_groups(command_properties(self.kafka.bootstrap()))
        members = [member for group in seen.groups if group.name == self.name for member in group.members]
        read = {one.client_id: {topic: sorted(row) for topic, row in one.partitions.items()} for one in members}
        snapshot = take_snapshot(command_properties(self.kafka.bootstrap())).snapshot
        tree = tree_of(snapshot.brokers, ("region", "zone", "rack"))
        rows = {row.group: row for row in group_rows(seen.groups, snapshot, tree, {}, seen.selector)}
        return read, rows[self.name].near if self.name in rows else None


@pytest.fixture
def two_topics(topics):
    stem = f"mixed-{secrets.token_hex(4)}"
    names = [f"{stem}-{side}" for side in ("left", "right")]
    for name in names:
        topics.create(name, ASSIGNMENT)
    yield names
    for deleted in topics.admin.delete_topics(names).values():
        deleted.result(120)


@pytest.fixture
def group(kafka, two_topics):
    return Group(kafka, two_topics)


@pytest.fixture
def start_java(kafka, kafka_distribution, processes, group):
    """A function that starts Kafka's own consumer in US."""

    def start():
        properties = {"client.id": "java", "client.rack": US, "heartbeat.interval.ms": 200, "metadata.max.age.ms": 1000}
        flag = "--command-property" if kafka_distribution.version >= "4.2" else "--consumer-property"  # KIP-1147
        command = kafka_distribution.command(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", kafka.bootstrap(), "--group", group.name),
            *("--include", "|".join(map(re.escape, group.topics))),
            *(word for key, value in properties.items() for word in (flag, f"{key}={value}")),
            jvm=("-Xmx256m", *FAST_START),
        )
        processes.start(group.name, command)

    yield start
    processes.kill(group.name)


def test_mixed_java_and_python_group_is_co_partitioned_and_its_leader_decides_locality(
    kafka, group, two_topics, start_java
):
    """The Java assignor takes members in the order of member ids, which begin with the client id."""

    def in_python(client_id):
        return InPython(kafka, group.name, two_topics, client_id)

    every, eu, us = [0, 1, 2, 3], [2, 3], [0, 1]
    with in_python("a") as leader:
        group.becomes(6, a=every)
        start_java()
        group.becomes(8, a=eu, java=us)
        assert leader.range.assigned[-1] == 2
    group.becomes(4, java=every)
    with in_python("a") as first:  # Java assigns 1 and 2 to it, which are near, and must take 3 itself
        group.becomes(6, a=[1, 2], java=[0, 3])
    group.becomes(4, java=every)
    with in_python("z") as last:
        group.becomes(8, java=us, z=eu)
        for topic in two_topics:
            move(kafka, topic, {0: ASSIGNMENT[2], 2: ASSIGNMENT[0]})
        group.becomes(8, java=[1, 2], z=[0, 3])  # without a change of members
    assert first.range.assigned == last.range.assigned == []
