"""How the client handles brokers that do not respond. Integration tests check responses of a real Kafka."""

import asyncio
import gc
import threading
import weakref
from concurrent.futures import Future
from copy import copy
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigSource

from rackspan.api.reasons import Reason
from rackspan.kafka import admin as admin_module
from rackspan.kafka.admin import ConfluentAdmin
from rackspan.reconcile.failures import Failure, FailureError

SILENT, REFUSED = KafkaError._TRANSPORT, KafkaError.CLUSTER_AUTHORIZATION_FAILED
TRIES = len(admin_module._READ_SECONDS)
TOPICS = {"orders": SimpleNamespace(partitions={0: SimpleNamespace(replicas=[2, 1])})}


class Brokers:
    """A fake of librdkafka's client: each call gets the next of `answers`, which is an error code or a value.

    `trouble` is the error code of connections that each poll reports.
    """

    def __init__(self, *answers, trouble=None):
        self.answers = list(answers)
        self.asked = []
        self.trouble = trouble
        self.told = None
        self.clients = 0

    def poll(self, _):
        if self.trouble is not None:
            self.told(KafkaError(self.trouble))

    def describe_cluster(self, request_timeout):
        self.asked.append(request_timeout)
        return Future() if self.answers[0] == SILENT and self.answers.pop(0) else self._future()

    def list_topics(self, timeout):
        self.asked.append(timeout)
        return SimpleNamespace(topics=self._next())

    def describe_configs(self, resources, request_timeout):
        (resource,) = resources
        self.asked.append(int(resource.name) if resource.name.isdigit() else resource.name)
        return {resource: self._future()}

    def describe_topics(self, names, request_timeout):
        return {name: self._future() for name in ("orders", "refunds")}

    def delete_topics(self, names, request_timeout):
        return {name: self._future() for name in names}

    def _future(self):
        answer = Future()
        try:
            answer.set_result(self._next())
        except KafkaException as error:
            answer.set_exception(error)
        return answer

    def _next(self):
        answer = self.answers.pop(0)
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer


def asked(brokers, monkeypatch, question):
    def client(properties):
        brokers.told = properties["error_cb"]
        brokers.clients += 1
        return copy(brokers)

    monkeypatch.setattr(admin_module.client, "AdminClient", client)

    async def answer():
        admin = ConfluentAdmin({"bootstrap.servers": "kafka:9092"})
        try:
            return await question(admin)
        finally:
            await admin.close()

    return asyncio.run(answer())


def test_read_is_retried_with_a_new_client_if_a_broker_does_not_respond(monkeypatch):
    brokers = Brokers(SILENT, SILENT, TOPICS)
    load = asked(brokers, monkeypatch, ConfluentAdmin.replica_counts)
    assert (dict(load.replicas), dict(load.leaders)) == ({2: 1, 1: 1}, {2: 1})
    assert brokers.asked[0] < 10, "the first timeout is short"
    assert brokers.asked == sorted(brokers.asked), "later timeouts are longer, for large clusters"
    assert brokers.clients == 3, "the same client would use the broker that hangs again"


def test_replica_counts_exclude_the_given_topics(monkeypatch):
    topics = TOPICS | {"payments": SimpleNamespace(partitions={0: SimpleNamespace(replicas=[3])})}
    load = asked(Brokers(topics), monkeypatch, lambda admin: admin.replica_counts(without=["orders"]))
    assert (dict(load.replicas), dict(load.leaders)) == ({3: 1}, {3: 1})


def test_read_fails_if_no_broker_responds(monkeypatch):
    with pytest.raises(FailureError, match="_TRANSPORT"):
        asked(Brokers(*[SILENT] * TRIES), monkeypatch, ConfluentAdmin.replica_counts)


def test_read_is_not_retried_after_an_authorization_error(monkeypatch):
    brokers = Brokers(REFUSED)
    with pytest.raises(FailureError, match="CLUSTER_AUTHORIZATION_FAILED"):
        asked(brokers, monkeypatch, ConfluentAdmin.replica_counts)
    assert len(brokers.asked) == 1


def test_read_is_not_retried_if_all_brokers_are_down(monkeypatch):
    brokers = Brokers(SILENT, trouble=KafkaError._ALL_BROKERS_DOWN)
    monkeypatch.setattr(ConfluentAdmin, "_forget_errors", lambda _: None)  # else the error counts as an old one
    with pytest.raises(FailureError, match="_TRANSPORT"):
        asked(brokers, monkeypatch, ConfluentAdmin.replica_counts)
    assert len(brokers.asked) == 1


def _topics(admin):
    return admin.topics(["orders", "refunds"])


def described(name, topic_id):
    return SimpleNamespace(name=name, topic_id=topic_id, partitions=[], is_internal=False)


def test_topics_raises_for_a_lost_connection_instead_of_a_result_per_topic(monkeypatch):
    with pytest.raises(FailureError, match="_TRANSPORT"):
        asked(Brokers(*[SILENT] * 2 * TRIES), monkeypatch, _topics)


@pytest.mark.parametrize(
    ("answers", "question"),
    [
        ([described("orders", "id-1"), described("refunds", "id-2")], _topics),
        ([{}], lambda admin: admin.configs(["orders"])),
    ],
)
def test_topics_and_configs_are_read_with_a_new_client_if_a_broker_hangs(answers, question, monkeypatch):
    brokers = Brokers(*[SILENT] * len(answers), *answers)
    assert None not in asked(brokers, monkeypatch, question).values()
    assert brokers.clients == 2


def test_change_without_a_response_is_not_retried_and_the_client_is_replaced(monkeypatch):
    brokers = Brokers(SILENT)
    found = asked(brokers, monkeypatch, lambda admin: admin.delete_topics({"orders": "id-1"}))
    assert isinstance(found["orders"], Failure)
    assert brokers.clients == 2


def _nodes(*ids):
    nodes = [SimpleNamespace(id=one, host="kafka", port=9092, rack=None) for one in ids]
    return SimpleNamespace(cluster_id="kafka-1", nodes=nodes)


def test_cluster_is_read_although_some_brokers_hang(monkeypatch):
    monkeypatch.setattr(admin_module, "_FIRST_ANSWER_SECONDS", 3)
    brokers = Brokers(SILENT, SILENT, _nodes(1, 2))
    found = asked(brokers, monkeypatch, ConfluentAdmin.cluster)
    assert [one.id for one in found.brokers] == [1, 2]
    assert brokers.clients == 3


def test_cluster_fails_if_no_broker_responds(monkeypatch):
    monkeypatch.setattr(admin_module, "_FIRST_ANSWER_SECONDS", 0.3)
    with pytest.raises(FailureError, match="no broker of kafka:9092 answered within"):
        asked(Brokers(SILENT, SILENT, SILENT), monkeypatch, ConfluentAdmin.cluster)


def test_replaced_client_is_freed_as_soon_as_no_call_uses_it(monkeypatch):
    made = []

    class Client:
        def __init__(self, _):
            made.append(weakref.ref(self))

        def poll(self, _):
            pass

        def list_topics(self, timeout):
            if len(made) == 1:
                raise KafkaException(KafkaError(SILENT))
            assert made[0]() is not None, "a client in use must not be freed"
            return SimpleNamespace(topics=TOPICS)

    monkeypatch.setattr(admin_module.client, "AdminClient", Client)

    async def question():
        admin = ConfluentAdmin({"bootstrap.servers": "kafka:9092"})
        await admin.replica_counts()
        gc.collect()
        freed = [client() is None for client in made]
        await admin.close()
        return freed

    assert asyncio.run(question()) == [True, False]


def test_failure_of_one_topic_does_not_affect_the_others(monkeypatch):
    found = asked(Brokers(REFUSED, described("refunds", "id-2")), monkeypatch, _topics)
    assert isinstance(found["orders"], Failure)
    assert found["refunds"].topic_id == "id-2"


def test_deleted_topic_is_absent_even_if_a_broker_still_returns_it(monkeypatch):
    async def delete(admin):
        await admin.delete_topics({"orders": "id-1", "refunds": "id-2"})
        return await admin.topics(["orders", "refunds"])

    answers = [None, REFUSED, described("orders", "id-1"), described("refunds", "id-2")]
    found = asked(Brokers(*answers), monkeypatch, delete)
    assert found["orders"] is None
    assert found["refunds"].topic_id == "id-2", "refunds was not deleted"


def test_next_deletion_forgets_old_deletions(monkeypatch):
    monkeypatch.setattr(admin_module, "_DELETED_SECONDS", 0)

    async def delete(admin):
        for name in ("orders", "refunds"):
            await admin.delete_topics({name: f"id-of-{name}"})
        return list(admin._deleted)

    assert asked(Brokers(None, None), monkeypatch, delete) == ["id-of-refunds"]


def _min_insync(admin):
    return admin.default_min_insync([1, 2, 3, 4])


@pytest.mark.parametrize(
    ("answers", "found", "asked_ids"),
    [
        ([{"min.insync.replicas": SimpleNamespace(value="2")}], 2, [1]),
        ([SILENT, {"min.insync.replicas": SimpleNamespace(value="2")}], 2, [1, 2]),
        ([SILENT, SILENT, SILENT], None, [1, 2, 3]),
        ([REFUSED], None, [1]),
        ([{}], None, [1]),
        ([{"min.insync.replicas": SimpleNamespace(value="many")}], None, [1]),
    ],
)
def test_default_min_insync_is_that_of_the_first_broker_that_responds(monkeypatch, answers, found, asked_ids):
    brokers = Brokers(*answers)
    assert asked(brokers, monkeypatch, _min_insync) == found
    assert brokers.asked == asked_ids


@pytest.mark.parametrize(
    ("configs", "cordoned"),
    [
        ({"log.dir": "/d", "log.dirs": "/a,/b", "cordoned.log.dirs": "*"}, True),
        ({"log.dir": "/d", "log.dirs": "/a, /b", "cordoned.log.dirs": "/b,/a"}, True),
        ({"log.dir": "/d", "log.dirs": "/a,/b", "cordoned.log.dirs": "/a"}, False),
        ({"log.dir": "/d", "log.dirs": None, "cordoned.log.dirs": "/d"}, True),
        ({"log.dir": "/d", "log.dirs": None, "cordoned.log.dirs": ""}, False),
        ({"log.dir": "/d", "log.dirs": None, "cordoned.log.dirs": None}, False),
        ({"log.dir": "/d", "log.dirs": "/a,/b"}, None),
        ({}, None),
    ],
)
def test_broker_is_cordoned_if_all_its_log_directories_are(configs, cordoned):
    entries = {key: SimpleNamespace(value=value) for key, value in configs.items()}
    assert admin_module._is_cordoned(entries) is cordoned


def test_closed_client_is_freed_without_garbage_collection():
    """Freeing the client joins its threads. This must not block the event loop."""

    async def used():
        admin = ConfluentAdmin({"bootstrap.servers": "127.0.0.1:1"})
        await admin.close()

    gc.collect()
    before = {id(one) for one in gc.get_objects() if isinstance(one, AdminClient)}
    gc.disable()
    try:
        asyncio.run(used())
        for thread in threading.enumerate():
            if thread.name == "kafka-close":
                thread.join(30)
        assert {id(one) for one in gc.get_objects() if isinstance(one, AdminClient)} <= before
    finally:
        gc.enable()


def test_configs_with_a_null_value_are_omitted(monkeypatch):
    def entry(value):
        return SimpleNamespace(value=value, source=ConfigSource.DYNAMIC_TOPIC_CONFIG.value)

    configs = {"retention.ms": entry("1"), "gone.key": entry(None), "min.insync.replicas": entry(None)}
    brokers = Brokers(configs)
    found = asked(brokers, monkeypatch, lambda admin: admin.configs(["orders"]))
    assert found["orders"].own == {"retention.ms": "1"}
    assert found["orders"].min_insync is None


@pytest.mark.parametrize(
    ("code", "reasons"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, [Reason.NOT_AUTHORIZED]), (KafkaError.UNKNOWN_TOPIC_OR_PART, [])],
    ids=["not allowed", "deleted"],
)
def test_configs_that_cannot_be_read_are_failures_unless_the_topic_is_deleted(monkeypatch, code, reasons):
    found = asked(Brokers(code), monkeypatch, lambda admin: admin.configs(["orders"]))
    assert [one.reason for one in found.values()] == reasons


def test_configs_that_no_broker_answers_are_not_failures_of_single_topics(monkeypatch):
    with pytest.raises(FailureError, match="imed out"):
        asked(Brokers(*[KafkaError._TIMED_OUT] * 5), monkeypatch, lambda admin: admin.configs(["orders"]))


@pytest.mark.parametrize(
    ("told", "known"), [("2147483648", 2**31 - 1), ("9" * 30, 2**31 - 1), ("-99999999999", 1), ("0", 1)]
)
def test_min_insync_replicas_out_of_range_are_clamped(monkeypatch, told, known):
    entries = {"min.insync.replicas": SimpleNamespace(value=told, source=0)}
    found = asked(Brokers(entries), monkeypatch, lambda admin: admin.configs(["orders"]))
    assert found["orders"].min_insync == known
    assert asked(Brokers(entries), monkeypatch, _min_insync) == known


def test_call_after_close_raises_failure_error(monkeypatch):
    """For example, a batch continues with a client that another task has closed meanwhile."""

    async def closed(admin):
        await admin.close()
        return await admin.replica_counts()

    with pytest.raises(FailureError) as caught:
        asked(Brokers(TOPICS), monkeypatch, closed)
    assert caught.value.failure.message == "the connection was given up"
