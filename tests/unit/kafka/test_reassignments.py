"""How the calls for reassignments handle responses of kafka-python and unreachable brokers."""

import time
import uuid
from types import SimpleNamespace

import pytest
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import ClusterAuthorizationFailedError, KafkaConnectionError, NoReassignmentInProgressError
from tests.support.hostile_kafka import HostileKafka

from rackspan.api.reasons import Reason
from rackspan.core.reassignment import (
    Disk,
    ListChange,
    ListOperation,
    PartitionState,
    Setting,
    SettingKind,
    TopicPartition,
)
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.kafka import python_connection
from rackspan.kafka.kafka_reassignments import KafkaReassignments
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import AlwaysPermitted

AT = TopicPartition("orders", 0)
HELD = [(0, 5, False), (1, -1, False), (2, -(2**63), False), (3, 0, False), (0, 9, True)]
"""Replicas in a log directory: partition number, bytes, and whether it is a future replica."""


class Client:
    """A fake of the client of kafka-python. The first `broken` clients fail at every call."""

    made: list = []  # noqa: RUF012
    broken = 0
    error: Exception = KafkaConnectionError("gone")

    def __init__(self, **_):
        self.is_broken = len(self.made) < self.broken
        self.made.append(self)

    def close(self):
        pass

    def _answer(self, answer):
        if self.is_broken:
            raise self.error
        return answer

    def describe_topics(self, names):
        there = {"partition_index": 0, "replica_nodes": [0, 1, 2], "isr_nodes": [0, 1], "leader_id": 0}
        partition = {**there, "offline_replicas": []}
        lost = {**there, "partition_index": 1, "replica_nodes": [2], "isr_nodes": [2], "leader_id": -1}
        lost["offline_replicas"] = [2]
        topics = {
            "orders": {"name": "orders", "error_code": 0, "partitions": [partition, lost]},
            "gone": {"name": "gone", "error_code": 3, "partitions": []},
            "identified": {
                "name": "identified",
                "error_code": 0,
                "topic_id": uuid.UUID("a7457235-9326-4ceb-8a43-8abc9166735c"),
                "partitions": [partition],
            },
        }
        return self._answer([topics[name] for name in names])

    def list_partition_reassignments(self):
        lists = {"replicas": [0, 1, 2], "adding_replicas": [2], "removing_replicas": []}
        return self._answer({PythonTopicPartition("orders", 0): lists, PythonTopicPartition("others", 0): lists})

    def alter_partition_reassignments(self, wanted, _seconds, *, resizing):
        return self._answer(
            {at: NoReassignmentInProgressError("why") if new is None else None for at, new in wanted.items()}
        )

    away = frozenset({2})
    asked: list = []  # noqa: RUF012

    def ask(self, request, seconds):
        self.asked.append((None, request, seconds))
        return self._answer(_answered(request))

    def ask_each(self, requests, seconds):
        self.asked.extend((broker, request, seconds) for broker, request in requests.items())
        gone = KafkaConnectionError("refused")
        return self._answer({one: gone if one in self.away else _answered(asked) for one, asked in requests.items()})

    def describe_cluster(self):
        node = {"host": "h", "port": 9092, "rack": "/a"}
        brokers = [{"broker_id": 1, **node}, {"broker_id": 0, **node}, {"broker_id": 2, "is_fenced": True, **node}]
        return self._answer({"cluster_id": "prod", "brokers": brokers})


def _answered(request):
    match type(request).__name__:
        case "DescribeLogDirsRequest":
            sizes = [(0, 1000, 400), (0, 2000, 300), (56, -1, -1)]
            held = [SimpleNamespace(partition_index=n, partition_size=s, is_future_key=f) for n, s, f in HELD]
            topics = [SimpleNamespace(name="orders", partitions=held)] if request.topics else []
            made = [SimpleNamespace(error_code=c, total_bytes=t, usable_bytes=u, topics=topics) for c, t, u in sizes]
            return SimpleNamespace(results=made)
        case "DescribeConfigsRequest":
            return SimpleNamespace(results=[_described(*one) for one in request.resources])
        case _:
            return SimpleNamespace(responses=[_result(one[1]) for one in request.resources])


def _result(name):
    code = {"gone": 3, "secret": 29}.get(name, 0)
    return SimpleNamespace(resource_name=name, error_code=code, error_message=None)


def _described(kind, name, keys):
    own = {2: 1, 4: 2}[kind]
    sources = {LEADERS: 5, FOLLOWERS: own, RATES[0]: own, RATES[1]: 3, "min.insync.replicas": 4}
    entries = [SimpleNamespace(name=key, value="2", config_source=sources[key]) for key in keys]
    return SimpleNamespace(**vars(_result(name)), configs=[] if name in ("gone", "secret") else entries)


@pytest.fixture
async def admin(monkeypatch):
    monkeypatch.setattr(Client, "made", [])
    monkeypatch.setattr(Client, "asked", [])
    monkeypatch.setattr(python_connection, "PythonAdmin", Client)
    admin = KafkaReassignments({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    yield admin
    await admin.close()


async def test_partitions_combine_metadata_with_reassignments_in_progress(admin):
    assert await admin.partitions(["orders", "gone"]) == {
        AT: PartitionState((0, 1, 2), frozenset({0, 1}), 0, frozenset({2}), frozenset()),
        TopicPartition("orders", 1): PartitionState((2,), frozenset({2}), None, offline=frozenset({2})),
    }


async def test_topic_id_has_the_format_of_kafka_tools(admin):
    (one,) = (await admin.partitions(["identified"])).values()
    assert one.topic_id == "p0VyNZMmTOuKQ4q8kWZzXA"


async def test_cluster_omits_fenced_brokers_and_disks_returns_the_fullest_directory(admin):
    await admin.partitions(["orders"])
    assert [broker.id for broker in (await admin.cluster()).brokers] == [0, 1]
    disks = await admin.disks([0])
    assert (disks[0].total, disks[0].usable) == (2000, 300)


async def test_alter_returns_an_outcome_per_partition(admin):
    outcomes = await admin.alter({AT: None, TopicPartition("orders", 1): (1, 2)})
    assert outcomes[TopicPartition("orders", 1)] is None
    assert outcomes[AT].reason is Reason.KAFKA_REFUSED
    assert outcomes[AT].message.endswith("why")


async def test_connection_error_is_retried_once_with_a_new_client(admin, monkeypatch):
    monkeypatch.setattr(Client, "broken", 1)
    assert AT in await admin.partitions(["orders"])
    assert len(Client.made) == 2


async def test_unreachable_cluster_raises_and_has_no_disks(admin, monkeypatch):
    monkeypatch.setattr(Client, "broken", 99)
    with pytest.raises(FailureError) as error:
        await admin.partitions(["orders"])
    assert error.value.failure.reason is Reason.KAFKA_UNREACHABLE
    assert await admin.disks([0]) == {}


async def test_alter_is_not_retried_after_an_authorization_error(admin, monkeypatch):
    monkeypatch.setattr(Client, "broken", 99)
    monkeypatch.setattr(Client, "error", ClusterAuthorizationFailedError("no"))
    with pytest.raises(FailureError) as error:
        await admin.alter({AT: (1, 2)})
    assert error.value.failure.reason is Reason.NOT_AUTHORIZED
    assert len(Client.made) == 1


def of_topic(name, key=FOLLOWERS):
    return Setting(SettingKind.TOPIC, name, key)


def of_broker(broker, key=RATES[0]):
    return Setting(SettingKind.BROKER, str(broker), key)


async def test_settings_are_own_values_or_a_failure_and_inherited_values_are_none(admin):
    inherited = [of_topic("orders", LEADERS), of_broker(0, RATES[1])]
    found = await admin.settings([of_topic("orders"), of_broker(0), of_topic("gone"), of_topic("secret"), *inherited])
    assert found.pop(of_topic("secret")).reason is Reason.NOT_AUTHORIZED
    assert found == {of_topic("orders"): "2", of_broker(0): "2"} | dict.fromkeys([of_topic("gone"), *inherited])


async def test_unreachable_broker_fails_only_its_own_settings(admin):
    some = [of_broker(0), of_broker(2), of_broker(2, RATES[1]), of_topic("orders"), of_topic("gone")]
    for outcomes in (await admin.settings(some), await admin.set_settings(dict.fromkeys(some, "2"))):
        failed = {one for one in some if getattr(outcomes[one], "reason", None) is Reason.KAFKA_UNREACHABLE}
        assert failed == {of_broker(2), of_broker(2, RATES[1])}
    assert len(Client.made) == 1
    assert {broker for broker, _, _ in Client.asked} == {0, 2, None}
    assert max(seconds for broker, _, seconds in Client.asked if broker is not None) <= 5
    assert await admin.disks([0, 2]) == {0: Disk(2000, 300, lost=1)}


async def test_set_settings_sets_or_deletes_values_and_accepts_a_deleted_topic(admin):
    values = {of_topic("orders"): "0:1", of_topic("orders", LEADERS): None, of_topic("gone"): "0:1"}
    values |= {of_topic("secret"): None}
    outcomes = await admin.set_settings(values)
    assert outcomes.pop(of_topic("secret")).reason is Reason.NOT_AUTHORIZED
    assert set(outcomes.values()) == {None}
    ((_, request, _),) = Client.asked
    assert request.resources[1][1:] == ("orders", [(FOLLOWERS, 0, "0:1"), (LEADERS, 1, None)])


@pytest.mark.parametrize(("operation", "number"), [(ListOperation.APPEND, 2), (ListOperation.SUBTRACT, 3)])
async def test_list_change_is_sent_as_append_or_subtract_operation(admin, operation, number):
    assert await admin.set_settings({of_topic("orders"): ListChange(operation, "0:1")}) == {of_topic("orders"): None}
    ((_, request, _),) = Client.asked
    assert request.resources[0][1:] == ("orders", [(FOLLOWERS, number, "0:1")])


async def test_sizes_omit_negative_sizes_and_future_replicas(admin):
    found = await admin.sizes({TopicPartition("orders", number): [0] for number in range(4)})
    assert found == {(AT, 0): 5, (TopicPartition("orders", 3), 0): 0}


@pytest.mark.parametrize(("size", "known"), [(2**50, True), (2**62, False), (2**63 - 1, False)])
async def test_sizes_omit_impossibly_large_sizes(admin, monkeypatch, size, known):
    """Sizes are added up, and the fields of statuses and columns have 64 bits."""
    monkeypatch.setitem(globals(), "HELD", [(number, size, False) for number in range(4)])
    found = await admin.sizes({TopicPartition("orders", number): [0] for number in range(4)})
    assert set(found.values()) == ({size} if known else set())


async def test_min_insync_omits_unreadable_topics_and_requests_only_that_config(admin):
    assert await admin.min_insync(["orders", "gone", "secret"]) == {"orders": 2}
    ((_, request, _),) = Client.asked
    assert {key for one in request.resources for key in one[2]} == {"min.insync.replicas"}


class Ends:
    """A permit that ends after this number of calls to Kafka."""

    change_timeout_seconds = 60.0

    def __init__(self, client, most):
        self._client, self._most = client, most

    def check(self):
        if self._client.tried >= self._most:
            raise FailureError(Failure(Reason.LEASE_NOT_HELD, "another operator leads", Remedy.RETRY))


CHANGES = {
    "alter": {AT: (0, 1)},
    "elect": [AT],
    "set_settings": {Setting(SettingKind.BROKER, "0", RATES[0]): "1"},
}


@pytest.mark.parametrize("call", CHANGES)
async def test_change_is_not_retried_after_the_permit_has_ended(monkeypatch, call):
    class Hangs(Client):
        tried = 0

        def _answer(self, _):
            Hangs.tried += 1
            raise KafkaConnectionError("gone")

        def elect_preferred(self, *_):
            self._answer(None)

    monkeypatch.setattr(Client, "made", [])
    monkeypatch.setattr(python_connection, "PythonAdmin", Hangs)
    admin = KafkaReassignments({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, Ends(Hangs, 1))
    with pytest.raises(FailureError):
        await getattr(admin, call)(CHANGES[call])
    await admin.close()
    assert Hangs.tried == 1


class Brief(AlwaysPermitted):
    change_timeout_seconds = 2.0


HUNG = {
    "alter": "AlterPartitionReassignments",
    "elect": "ElectLeaders",
    "set_settings": "IncrementalAlterConfigs",
    "set_topics": "IncrementalAlterConfigs",
}


@pytest.mark.parametrize("call", HUNG)
async def test_a_change_that_kafka_does_not_answer_is_given_up_while_the_permit_lasts(call):
    changes = CHANGES | {"set_topics": {of_topic("orders"): "0:1"}}
    with HostileKafka(lambda answer: None if answer.name == f"{HUNG[call]}Response" else answer) as kafka:
        assert await reason_of(kafka, call.replace("topics", "settings"), changes[call]) is Reason.KAFKA_UNREACHABLE


@pytest.mark.parametrize("call", ["alter", "elect"])
async def test_nothing_is_changed_where_the_controller_is_known_only_after_the_permit(call):
    with HostileKafka() as kafka:

        def mutate(answer):
            if answer.name == "MetadataResponse" and kafka.answered["DescribeConfigs"]:
                time.sleep(2.5)
            return answer

        kafka.mutate = mutate
        assert await reason_of(kafka, call, CHANGES[call]) is Reason.KAFKA_UNREACHABLE
        assert not kafka.answered[HUNG[call]]


async def reason_of(kafka, call, changes):
    """Why a change failed, of a client that has been connected; asserts that it was given up in time."""
    admin = KafkaReassignments({"bootstrap.servers": kafka.address, "log_level": 0}, Brief())
    await admin.min_insync(["orders"])
    began = time.monotonic()
    try:
        found = next(iter((await getattr(admin, call)(changes)).values()), None)
    except FailureError as error:
        found = error.failure
    assert time.monotonic() - began < 60, "two requests of a second, and a connection"
    await admin.close()
    return found and found.reason
