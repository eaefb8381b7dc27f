"""Consumer groups of a real Kafka: members, their partitions and racks, and the locality of their reads."""

import json
import math
import secrets
import threading
import time
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from dev.stack.kafka_cluster import FAST_START
from dev.stack.nodes import SIX_BROKERS
from tests.support.command import cli
from tests.support.topics import move
from tests.support.waiting import until

from rackspan.api.racktopology import RackTopology
from rackspan.api.reasons import Reason
from rackspan.core.consumers.group_locality import GroupProtocol, GroupSeen, MemberSeen, ReplicaPlaces, Selector
from rackspan.core.snapshot import tree_of
from rackspan.jobs.sources.topology_cluster import from_topology
from rackspan.kafka import consumer_groups as reading
from rackspan.kafka.cluster_snapshot import take_snapshot
from rackspan.kafka.command_config import command_properties
from rackspan.kafka.consumer_groups import read_consumer_groups
from rackspan.kafka.consumption import sample_rates
from rackspan.kube.topology_inputs import ScanInputs
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import Credentials
from rackspan.reports.group_rows import group_rows

EU, US = SIX_BROKERS[0].path, SIX_BROKERS[3].path
LEVELS = ("region", "zone", "rack")
pytestmark = pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")  # no other call returns rack ids

ASSIGNMENT = [[3, 4], [0, 3], [0, 1], [2, 0]]
"""The first two partitions have a replica in the rack US, all but the first one have a replica in the rack EU."""


@pytest.fixture
def name():
    return f"locality-{secrets.token_hex(4)}"


@pytest.fixture
def topic(kafka, topics, name):
    topics.create(name, ASSIGNMENT)
    kafka.wait_until_agreed()  # a group coordinator refuses offsets of a topic that it does not know yet
    yield name
    topics.admin.delete_topics([name])[name].result(120)


class Reader:
    """A consumer that polls in a thread until it is closed."""

    def __init__(self, kafka, topic, group, **config):
        self.fetched_from = {}
        self._consumer = Consumer(
            {
                **kafka.client_config(),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "statistics.interval.ms": 200,
                "stats_cb": lambda text: self._note(json.loads(text), topic),
                **config,
            }
        )
        self._consumer.subscribe([topic])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self):
        while not self._ended.is_set():
            self._consumer.poll(0.1)
        self._consumer.close()

    def _note(self, statistics, topic):
        seen = statistics["topics"].get(topic, {}).get("partitions", {})
        self.fetched_from = {
            int(number): partition["broker"]
            for number, partition in seen.items()
            if partition["fetch_state"] == "active"
        }

    def close(self):
        self._ended.set()
        self._thread.join(30)


@contextmanager
def reading_group(kafka, topic, group, *configs):
    """Yield the consumers of a group after all partitions are assigned to them."""
    readers = [Reader(kafka, topic, group, **config) for config in configs]
    try:
        until(lambda: complete(kafka, group, len(configs)), f"group {group} to be stable")
        yield readers
    finally:
        for reader in readers:
            reader.close()


def seen_groups(kafka, advance=None):
    return read_consumer_groups(command_properties(kafka.bootstrap()), advance)


def seen_group(kafka, group):
    return next((one for one in seen_groups(kafka).groups if one.name == group), None)


def complete(kafka, group, members):
    seen = seen_group(kafka, group)
    counts = [sum(map(len, member.partitions.values())) for member in seen.members] if seen else []
    return len(counts) == members and all(counts) and sum(counts) == len(ASSIGNMENT)


def row_of(kafka, seen, group, host_racks):
    snapshot = take_snapshot(command_properties(kafka.bootstrap())).snapshot
    tree = tree_of(snapshot.brokers, LEVELS)
    rows = group_rows(seen.groups, snapshot, tree, host_racks, seen.selector)
    return next((row for row in rows if row.group == group), None)


def counts(row):
    """Return the counts of a row, or None if the group was not seen."""
    if row is None:
        return None
    return row.members, row.partitions, row.near, row.reads_near, row.could_be_near, row.members_without_rack


def test_members_are_located_by_client_rack_and_read_from_replicas_of_the_selector(kafka, topic, name):
    crosswise = {
        "partition.assignment.strategy": "roundrobin"
    }  # in the order of client ids: 0 and 2 to the first, 1 and 3 to the second
    with reading_group(
        kafka,
        topic,
        name,
        {"client.id": "a", "client.rack": EU, **crosswise},
        {"client.id": "b", "client.rack": US, **crosswise},
    ) as readers:
        seen = seen_groups(kafka)
        group = next(one for one in seen.groups if one.name == name)
        members = {member.client_id: member for member in group.members}
        assert group.assignor == "roundrobin"
        assert {client: member.client_rack for client, member in members.items()} == {"a": EU, "b": US}
        assert {client: sorted(member.partitions[topic]) for client, member in members.items()} == {
            "a": [0, 2],
            "b": [1, 3],
        }
        assert {member.host for member in members.values()} == {"127.0.0.1"}
        assert seen.selector == Selector.SAME_RACK
        assert counts(row_of(kafka, seen, name, {})) == (2, 4, 2, 2, 4, 0)
        told = cli("locality", "--bootstrap-server", kafka.bootstrap(), "--group", name, "--fail-above", "0.5")
        assert (told.code, "assignor roundrobin ignores racks, 2 more partitions" in told.out) == (0, True)
        (row,) = cli("locality", "--bootstrap-server", kafka.bootstrap(), "--group", name, "-o", "json").json["groups"]
        assert (row["protocol"], row["near"], row["readsNear"], row["readsFar"]) == ("classic", 2, 2, 2)
        # By the client statistics, 1 is read from the follower in the rack of its reader, 0 and 3 from remote leaders.
        fetched = {0: 3, 1: 3, 2: 0, 3: 2}
        until(lambda: readers[0].fetched_from | readers[1].fetched_from == fetched, "the clients to fetch there")


@pytest.mark.parametrize(("first", "second", "near"), [(US, EU, 4), (EU, US, 3)])
def test_rack_aware_range_assignor_reaches_the_best_locality_only_for_one_member_order(
    kafka, topic, name, first, second, near
):
    members = ({"client.id": "a", "client.rack": first}, {"client.id": "b", "client.rack": second})
    with reading_group(kafka, topic, name, *members):
        row = row_of(kafka, seen_groups(kafka), name, {})
        assert counts(row) == (2, 4, near, near, 4, 0)


def test_cooperative_sticky_assigns_near_partitions_and_follows_moved_replicas(kafka, topic, name):
    sticky = {
        "partition.assignment.strategy": "cooperative-sticky",
        "topic.metadata.refresh.interval.ms": 500,
        "heartbeat.interval.ms": 200,
    }
    members = ({"client.id": "a", "client.rack": EU, **sticky}, {"client.id": "b", "client.rack": US, **sticky})

    def all_near():
        seen = seen_groups(kafka)
        return counts(row_of(kafka, seen, name, {})) == (2, 4, 4, 4, 4, 0)

    with reading_group(kafka, topic, name, *members):
        until(all_near, "all to be near")
        move(kafka, topic, {0: ASSIGNMENT[2], 2: ASSIGNMENT[0]})
        until(all_near, "all to be near again")


def test_brokers_report_rack_and_subscription_of_consumer_protocol_members(kafka, topic, name):
    with reading_group(kafka, topic, name, {"client.rack": US, "group.protocol": "consumer"}):

        def all_known():
            found = seen_groups(kafka)
            return None if found.warnings else found  # a coordinator does not list its groups while it loads them

        seen = until(all_known, "all groups to be described")
        (member,) = next(one for one in seen.groups if one.name == name).members
        assert (member.client_rack, member.topics) == (US, {topic})
        assert counts(row_of(kafka, seen, name, {})) == (1, 4, 2, 2, 2, 0)


def test_share_consumers_read_from_leaders_in_spite_of_replicas_in_their_racks(
    kafka, kafka_distribution, processes, topic, name
):
    if kafka_distribution.version < "4.2":
        pytest.skip(f"share groups are a preview in Kafka {kafka_distribution.version}")
    consumer = kafka_distribution.command(
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        *("--bootstrap-server", kafka.bootstrap(), "--topic", topic, "--group", name),
        jvm=("-Xmx128m", *FAST_START),
    )
    racks = {f"{name}-a": EU, f"{name}-b": US}
    for process, rack in racks.items():
        processes.start(process, [*consumer, "--consumer-property", f"client.rack={rack}"])

    def whole():
        for process in racks:
            processes.check(process)
        seen = seen_groups(kafka)
        group = next((one for one in seen.groups if one.name == name), None)
        numbers = [number for member in group.members for number in member.partitions.get(topic, ())] if group else []
        return seen if len(group.members if group else ()) == 2 and sorted(numbers) == [0, 1, 2, 3] else None

    try:
        seen = until(whole, "a share group to have all partitions")
    finally:
        for process in racks:
            processes.kill(process)
    group = next(one for one in seen.groups if one.name == name)
    assert (group.protocol, group.assignor) == (GroupProtocol.SHARE, "simple")
    assert {member.client_rack for member in group.members} == {EU, US}
    near = {EU: {1, 2}, US: {0}}  # partitions with the leader in that rack
    expected = sum(len(near[member.client_rack].intersection(member.partitions[topic])) for member in group.members)
    row = row_of(kafka, seen, name, {})
    assert (row.members, row.partitions, row.near, row.reads_near) == (2, 4, expected, expected)


def test_refused_group_description_by_kafka_python_is_a_warning(kafka, topic, name, monkeypatch):
    def refused(_admin):
        raise FailureError(Failure(Reason.NOT_AUTHORIZED, "not allowed", Remedy.ACCESS))

    with reading_group(kafka, topic, name, {"client.rack": US, "group.protocol": "consumer"}):
        monkeypatch.setattr(reading, "describe_groups", refused)
        seen = seen_groups(kafka)
        group = next(one for one in seen.groups if one.name == name)
        assert not group.racks_seen
        about = "client.rack in the consumer protocol, share groups and streams groups are not known: not allowed"
        assert about in seen.warnings


def test_empty_group_is_listed_with_zero_counts(kafka, topic, name):
    leave_offsets(kafka, topic, name)
    seen = seen_groups(kafka)
    assert counts(row_of(kafka, seen, name, {})) == (0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_deleted_during_the_scan_is_skipped_without_a_warning(kafka, topics, topic, name, protocol, monkeypatch):
    with reading_group(kafka, topic, name, {"group.protocol": protocol}):
        pass
    leave_offsets(kafka, topic, name)  # Kafka removes an empty group without offsets at any time
    until(lambda: (found := seen_group(kafka, name)) and not found.members, "the group to be empty")
    leave_offsets(kafka, topic, f"{name}-other")
    listed = reading._GroupsAdmin.groups

    async def listed_before_it_dies(admin):
        found, refused = await listed(admin)
        topics.admin.delete_consumer_groups([name])[name].result(120)
        return [one for one in found if one.startswith(name)], refused  # Kafka may remove a group of another test

    monkeypatch.setattr(reading._GroupsAdmin, "groups", listed_before_it_dies)
    told = []
    seen = seen_groups(kafka, lambda done, of: told.append((done, of)))
    names = {group.name for group in seen.groups}
    assert name not in names
    assert f"{name}-other" in names
    described = [group for group in seen.groups if group.protocol in (GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)]
    assert told[-1][0] == told[-1][1] == len(described) + 1
    assert not any(name in text for text in seen.warnings)


def test_refused_requests_are_warnings_and_other_groups_are_read(kafka, topic, name, monkeypatch):
    described = reading._GroupsAdmin.describe_groups
    refused = KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    async def one_refused(admin, names, seconds):
        return {**await described(admin, names, seconds), f"{name}-other": refused}

    async def all_refused(_admin, *_arguments):
        raise FailureError(Failure(Reason.NOT_AUTHORIZED, "not allowed", Remedy.ACCESS))

    leave_offsets(kafka, topic, f"{name}-other")
    with reading_group(kafka, topic, name, {"client.rack": EU}):
        monkeypatch.setattr(reading._GroupsAdmin, "describe_groups", one_refused)
        monkeypatch.setattr(reading._GroupsAdmin, "subscriptions", all_refused)
        monkeypatch.setattr(reading._GroupsAdmin, "broker_setting", all_refused)
        seen = seen_groups(kafka)
        here = tuple(EU.strip("/").split("/"))
        assert counts(row_of(kafka, seen, name, {"127.0.0.1": here})) == (1, 4, 3, 2, 3, 0)
    assert f"{name}-other" not in {group.name for group in seen.groups}
    expected = (  # there may be more, about groups of other tests
        f"consumer groups that could not be described: 1, such as {name}-other: Kafka says",
        "client.rack of consumers could not be read: not allowed",
        "replica.selector.class could not be read, consumers are taken to read from leaders",
    )
    for sentence in expected:
        assert any(text.startswith(sentence) for text in seen.warnings), seen.warnings


def test_rates_are_computed_from_offsets_committed_between_two_samples(kafka, topic, name):
    records, each = 100, 1000
    producer = Producer(kafka.client_config())

    def produce(*partitions):
        for partition in partitions:
            for _ in range(records):
                producer.produce(topic, secrets.token_bytes(each), partition=partition)
        assert producer.flush(300) == 0

    produce(0, 1, 2)
    consumer = Consumer({**kafka.client_config(), "group.id": name})
    snapshot = take_snapshot(command_properties(kafka.bootstrap())).snapshot
    replicas = ReplicaPlaces(tree_of(snapshot.brokers, LEVELS), snapshot.brokers, snapshot.partitions)
    group = GroupSeen(name, "", (MemberSeen("one", "one", "127.0.0.1", {topic: [0, 1, 2, 3]}),))

    def commit(*offsets):
        partitions = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
        consumer.commit(offsets=partitions, asynchronous=False)

    async def wait():
        commit(20, 90, 10)
        produce(3)

    try:
        commit(0, 50, 10)
        started = time.monotonic()
        properties = {"client.id": "rackspan", **kafka.client_config()}
        found = sample_rates(properties, [group, GroupSeen("idle")], replicas, wait)
        elapsed = time.monotonic() - started
    finally:
        consumer.close()
    assert (found.rates_of("idle"), found.warnings) == (None, ())
    first, second, third, fourth = found.rates_of(name)[replicas.rows([topic] * 4, [0, 1, 2, 3])].tolist()
    assert 20 * each / elapsed < first
    assert second == pytest.approx(2 * first, rel=0.1)
    assert third == 0
    assert math.isnan(fourth)
    *idle, written = found.written[replicas.rows([topic] * 4, [0, 1, 2, 3])].tolist()
    assert idle == [0, 0, 0]
    assert records * each / elapsed < written


@contextmanager
def written_to(kafka, topic, partition):
    """Write records continuously during the block."""
    producer, ended = Producer(kafka.client_config()), threading.Event()

    def write():
        while not ended.wait(0.02):
            producer.produce(topic, secrets.token_bytes(1000), partition=partition)
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(30)
        producer.flush(300)


def scanned(kafka, group, **compliance):
    """Return the row of a group in a scan of a RackTopology."""
    brokers = [{"id": number, "rack": site.path} for number, site in enumerate(SIX_BROKERS)]
    about = RackTopology.from_object(
        {
            "metadata": {"namespace": "kafka", "name": "prod", "uid": "1", "generation": 1, "resourceVersion": "1"},
            "spec": {
                "kafka": {"bootstrapServers": kafka.bootstrap()},
                "levels": [{"name": level} for level in LEVELS],
                "rackSource": "Broker",
                "compliance": compliance,
            },
            "status": {"brokerCount": len(brokers), "brokers": brokers},
        }
    )
    found = from_topology(ScanInputs(about, (), {}, Credentials(), (), (), {}, ()))
    return next(row for row in found.groups if row.group == group)


def test_scan_with_two_samples_reports_bytes_that_cross_domains(kafka, topic, name):
    reader = {"client.rack": EU, "auto.commit.interval.ms": 200}
    with reading_group(kafka, topic, name, reader), written_to(kafka, topic, partition=0):  # which has no replica in EU
        assert scanned(kafka, name).cross_bytes_per_second is None

        def with_rate():
            row = scanned(kafka, name, sampleSeconds=2)
            return row if row.cross_bytes_per_second else None

        row = until(with_rate, "offsets to be committed between two looks")
    assert counts(row) == (1, 4, 3, 3, 3, 0)
    assert row.cross_bytes_per_second > 0


def test_reading_groups_of_an_unreachable_kafka_fails_with_kafka_unreachable():
    with pytest.raises(FailureError) as caught:
        read_consumer_groups(command_properties("127.0.0.1:1"))
    assert caught.value.failure.reason == Reason.KAFKA_UNREACHABLE


def leave_offsets(kafka, topic, group):
    """Create a group with offsets and without members."""
    consumer = Consumer({**kafka.client_config(), "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
