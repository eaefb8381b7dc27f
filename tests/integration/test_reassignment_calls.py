"""Reassignment calls on real brokers: in plain text, with TLS, with SCRAM and with client certificates."""

import asyncio
import secrets
import socket
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka.net import manager
from tests.support.topics import Topics

from rackspan.core.durability import effective_min_insync
from rackspan.core.reassignment import ListChange, ListOperation, Setting, SettingKind, TopicPartition
from rackspan.core.reassignment.throttles import FOLLOWERS, LEADERS, RATES
from rackspan.kafka import python_admin
from rackspan.kafka.kafka_reassignments import KafkaReassignments
from rackspan.reconcile.failures import FailureError


@asynccontextmanager
async def connected(cluster, listener="INTERNAL", **more):
    admin = KafkaReassignments({**cluster.client_config(listener), **more})
    try:
        yield admin
    finally:
        await admin.close()


@pytest.fixture
def topic(topics):
    name = f"moves-{secrets.token_hex(4)}"
    topics.create(name, [[0, 1, 2], [1, 2, 0]])
    yield name
    topics.admin.delete_topics([name])[name].result(120)


async def seen(admin, at):
    return (await admin.partitions([at.topic])).get(at)


async def until_seen(admin, at, condition):
    """Wait until a broker returns the partition in this state, and return the state. Metadata of brokers may be old."""
    return await until_true(lambda: seen(admin, at), lambda one: one is not None and condition(one))


async def until_true(look, condition):
    """Repeat `look` until its result meets the condition, for at most 300 seconds, and return the result."""
    async with asyncio.timeout(300):
        while not condition(now := await look()):  # noqa: ASYNC110 - Kafka has no event for it
            await asyncio.sleep(0.1)
    return now


@pytest.fixture
def silent():
    """The port of a bootstrap server that accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_client_tries_another_bootstrap_server_if_the_first_one_hangs(kafka, topic, silent, monkeypatch):
    chosen = []

    def choose(servers):
        one = next(one for one in servers if (one.port == silent) is not bool(chosen))
        chosen.append(one.port)
        return one

    monkeypatch.setattr(manager.random, "choice", choose)
    monkeypatch.setattr(python_admin, "_FIRST_TRY_MS", 2_000)  # also the limit of the first try of the real broker
    async with connected(kafka, **{"bootstrap.servers": f"127.0.0.1:{silent},{kafka.bootstrap()}"}) as admin:
        await until_seen(admin, TopicPartition(topic, 0), lambda one: one.replicas == (0, 1, 2))
    assert chosen[0] == silent
    assert len(chosen) >= 2


async def test_alter_adds_and_removes_replicas_and_elect_makes_the_preferred_replica_leader(kafka, topic):
    at = TopicPartition(topic, 0)
    async with connected(kafka) as admin:
        refused = await admin.alter({at: (0, 1, 2, 3)}, {at})
        assert "replication factor" in refused[at].message.lower(), (
            "the change of the number of replicas was not refused"
        )
        assert await admin.alter({at: (0, 1, 2, 3)}) == {at: None}
        state = await until_seen(admin, at, lambda one: not one.under_way and 3 in one.in_sync)
        assert state.replicas == (0, 1, 2, 3)
        assert await admin.alter({at: (3, 1, 2)}) == {at: None}
        state = await until_seen(admin, at, lambda one: one.replicas == (3, 1, 2))
        assert await admin.alter({at: (1, 3, 2)}, {at}) == {at: None}
        await until_seen(admin, at, lambda one: one.replicas == (1, 3, 2))
        assert await admin.elect([at]) == {at: None}
        await until_seen(admin, at, lambda one: one.leader == 1)
        assert await admin.elect([at]) == {at: None}
        refused = await admin.alter({at: None})
        assert "reassignment" in refused[at].message.lower().replace("noreassignment", "reassignment")
        assert await seen(admin, TopicPartition("no-such-topic", 0)) is None


async def test_throttles_are_set_read_and_deleted_on_brokers_and_topics(kafka, topic):
    rate, list_ = Setting(SettingKind.BROKER, "4", RATES[0]), Setting(SettingKind.TOPIC, topic, FOLLOWERS)
    other, gone = Setting(SettingKind.TOPIC, topic, LEADERS), Setting(SettingKind.TOPIC, "no-such-topic", LEADERS)
    away = Setting(SettingKind.BROKER, "77", RATES[0])
    async with connected(kafka) as admin:
        # A broker that responds late has a Failure.
        unset = dict.fromkeys([rate, list_, other, gone])
        await until_true(lambda: admin.settings(list(unset)), unset.__eq__)
        outcomes = await admin.set_settings({rate: "12345", list_: "0:3", gone: "0:3", away: "1"})
        assert outcomes.pop(away) is not None
        assert set(outcomes.values()) == {None}

        async def all_are(values):
            await until_true(lambda: admin.settings(list(values)), values.__eq__)

        await all_are({rate: "12345", list_: "0:3", other: None})
        assert await admin.set_settings({list_: ListChange(ListOperation.APPEND, "1:2,0:3")}) == {list_: None}
        await all_are({list_: "0:3,1:2"})
        refused = await admin.set_settings({list_: ListChange(ListOperation.APPEND, "*")})
        assert "'*'" in refused[list_].message
        assert await admin.set_settings({list_: ListChange(ListOperation.SUBTRACT, "0:3,7:7")}) == {list_: None}
        await all_are({list_: "1:2"})
        assert set((await admin.set_settings({rate: None, list_: None})).values()) == {None}
        await all_are({rate: None, list_: None})


async def test_disks_sizes_and_min_insync_return_values_of_existing_brokers_and_topics(kafka, topic):
    producer = Producer(kafka.client_config())
    producer.produce(topic, secrets.token_bytes(50_000), partition=0)
    assert producer.flush(300) == 0
    at = TopicPartition(topic, 0)
    async with connected(kafka) as admin:
        # A broker that responds late is left out.
        disks = await until_true(lambda: admin.disks([0, 5, 77]), lambda found: found.keys() == {0, 5})
        assert 0 < disks[0].usable <= disks[0].total
        sizes = await until_true(lambda: admin.sizes({at: [0, 77]}), lambda found: found.keys() == {(at, 0)})
        assert 50_000 < sizes[at, 0] < 60_000
        assert (await admin.min_insync([topic])).keys() == {topic}


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
async def test_both_clients_use_the_same_certificates_and_credentials(secure_kafka, listener):
    topics = Topics(secure_kafka.admin())
    name = f"moves-{secrets.token_hex(4)}"
    topics.create(name, [[0, 1]])
    at = TopicPartition(name, 0)
    async with connected(secure_kafka, listener) as admin:
        assert await admin.alter({at: (1, 0)}) == {at: None}
        await until_seen(admin, at, lambda one: one.replicas == (1, 0))


def as_texts(config):
    files = {name: config.pop(f"ssl.{name}.location") for name in ("ca", "certificate", "key")}
    return {**config, **{f"ssl.{name}.pem": Path(file).read_text() for name, file in files.items()}}


async def test_both_clients_accept_certificates_as_pem_text(secure_kafka):
    admin = KafkaReassignments(as_texts(secure_kafka.client_config("SSL")))
    try:
        assert (await admin.partitions([])) == {}
        assert (await admin.disks([0])).keys() == {0}
    finally:
        await admin.close()


async def test_wrong_password_raises_an_error_without_the_password(secure_kafka):
    config = {**secure_kafka.client_config("SASL_SSL"), "sasl.password": "not-the-password"}
    admin = KafkaReassignments(config)
    try:
        with pytest.raises(FailureError) as error:
            await admin.cluster()
        assert "not-the-password" not in str(error.value)
    finally:
        await admin.close()


@pytest.mark.parametrize(("replicas", "least"), [([0], 2), ([0, 1], 3)])
def test_brokers_cap_min_insync_replicas_at_the_number_of_replicas(kafka, topics, replicas, least):
    """A real broker agrees with `effective_min_insync`."""
    name = f"few-{secrets.token_hex(4)}"
    topics.create(name, [replicas], config={"min.insync.replicas": str(least)})
    told = []
    producer = Producer({**kafka.client_config(), "acks": "all", "message.timeout.ms": 60_000})
    producer.produce(name, b"one", on_delivery=lambda error, _: told.append(error))
    producer.flush(300)
    assert told == [None]
    assert int(effective_min_insync(least, len(replicas))) == len(replicas)
    topics.admin.delete_topics([name])[name].result(120)
