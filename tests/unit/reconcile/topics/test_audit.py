"""The audit log has one line per creation, change or deletion in Kafka: the object, the request and the response."""

import asyncio
import json
import logging

import pytest
from tests.unit.reconcile.examples import state, topic
from tests.unit.reconcile.memory import MemoryKafka, reconciled

from rackspan.api.reasons import Reason
from rackspan.reconcile import audit_log
from rackspan.reconcile.audit_log import LOGGER
from rackspan.reconcile.failures import Failure, Remedy

REFUSED = Failure(Reason.INVALID_CONFIG, "Kafka says\nINVALID_CONFIG", Remedy.SPEC)
AWAY = Failure(Reason.KAFKA_UNREACHABLE, "no answer", Remedy.RETRY)
FAIR = ((0, 3, 2), (3, 1, 2), (4, 2, 0))


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, LOGGER)
    return lambda: [record for record in caplog.records if record.name == LOGGER]


async def test_line_names_the_object_the_operation_and_the_response_of_kafka(lines):
    admin = MemoryKafka({"b": FAIR, "c": FAIR}, {"b": {}, "c": {}}, refusing={"bad": REFUSED})
    topics = [topic("a"), topic("b", partitions=5), topic("c", config={"retention.ms": 1}), topic("bad")]
    await reconciled(topics, state(), admin)
    entries = {record.audit["topic"]: record.audit for record in lines()}
    assert len(lines()) == 4
    assert {name: (entry["operation"], entry["answer"]) for name, entry in entries.items()} == {
        "a": ("CreateTopic", "ok"),
        "b": ("CreatePartitions", "ok"),
        "c": ("AlterConfigs", "ok"),
        "bad": ("CreateTopic", "InvalidConfig"),
    }
    assert entries["a"]["object"] == {
        "kind": "KafkaTopic",
        "namespace": "shop",
        "name": "a",
        "uid": topics[0].meta.uid,
        "generation": 1,
    }
    assert entries["a"]["partitions"] == 3
    assert entries["b"]["partitions"] == 5
    assert entries["c"]["config"] == {"retention.ms": "1"}
    assert entries["bad"]["message"] == REFUSED.message


async def test_call_without_response_logs_one_line_per_topic(lines):
    await reconciled([topic("a"), topic("b")], state(), MemoryKafka(broken={"create_topics": AWAY}))
    assert [record.audit["answer"] for record in lines()] == ["KafkaUnreachable"] * 2


async def test_topic_without_changes_logs_no_line(lines):
    await reconciled([topic("a")], state(), MemoryKafka({"a": FAIR}, {"a": {}}))
    assert lines() == []


def test_line_escapes_control_characters_and_line_breaks(lines):
    hostile = topic("a", config={"x": "\r\n\x1b[2J\u2028"})
    audit_log.record(*audit_log.deletion_of(hostile), Failure(Reason.KAFKA_REFUSED, "\n\x85\x1b]0;", Remedy.RETRY))
    (record,) = lines()
    text = record.getMessage()
    assert text.isascii()
    assert text.isprintable()
    operation, _, entry = text.partition(" ")
    assert (operation, json.loads(entry)) == ("DeleteTopic", record.audit)


async def test_change_that_is_under_way_at_the_end_of_the_operator_has_a_line(lines):
    class Slow(MemoryKafka):
        async def create_topics(self, topics):
            asked.set()
            await asyncio.Event().wait()

    asked = asyncio.Event()
    working = asyncio.create_task(reconciled([topic("a")], state(), Slow()))
    await asked.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    (record,) = lines()
    assert (record.audit["operation"], record.audit["answer"]) == ("CreateTopic", "KafkaUnreachable")
    assert record.audit["message"].endswith("so Kafka may make the change")


async def test_change_that_the_answer_leaves_out_is_not_logged_as_made(lines):
    async def answer():
        return {"a": None}

    await audit_log.audited({name: ("AlterReplicas", {"topic": name}) for name in ("a", "b")}, answer)
    assert [record.audit["answer"] for record in lines()] == ["ok", "KafkaUnreachable"]
