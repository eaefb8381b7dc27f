"""How `rackspan apply` ends if a copy makes no progress or Kafka refuses a replica list."""

import asyncio
import itertools
import json
import time

import pytest
from tests.support.command import cli
from tests.support.simulated_kafka import CLUSTER_ID, SimulatedKafka

from rackspan.api.reasons import Reason
from rackspan.cli.shared.connection import Connection
from rackspan.cli.shared.journal_file import JournalFile
from rackspan.core.planning import Change
from rackspan.core.reassignment import TopicPartition
from rackspan.reconcile.failures import Failure, Remedy
from rackspan.reconcile.ports import Record

HELD, FREE = TopicPartition("held", 0), TopicPartition("free", 0)
HASH = "0123456789abcdef0123456789abcdef"
REFUSED = "Kafka says InvalidReplicationAssignment: [Error 39] InvalidReplicationAssignmentError: no"


class Kafka(SimulatedKafka):
    """Copies all partitions but `held` at once. Its copy grows by `arrives` bytes per look, or its lists fail."""

    failure = None
    arrives = 0
    size = 0

    async def partitions(self, topics):
        self.catch_up(FREE, 2)
        return await super().partitions(topics)

    async def sizes(self, partitions):
        self.size += self.arrives
        return dict.fromkeys(await super().sizes(partitions), self.size)

    async def alter(self, targets, same_size=()):
        failed = {HELD: self.failure} if self.failure is not None and HELD in targets else {}
        return {
            **failed,
            **await super().alter({at: new for at, new in targets.items() if at not in failed}, same_size),
        }


@pytest.fixture
def kafka():
    lists = {HELD: (0, 1), FREE: (0, 1)}
    return Kafka(dict.fromkeys(range(4), ("x", "a")), lists, {HELD: (0, 3), FREE: (0, 2)})


@pytest.fixture
def apply(kafka, monkeypatch, tmp_path):
    """A function that continues the plan of the journal and returns the run, its last event and the seconds."""
    changes = [Change(at.topic, at.partition, kafka.planned[at], before, 100) for at, before in kafka.lists.items()]
    racks = {broker: "/".join(("", *rack)) for broker, rack in kafka.racks.items()}
    journal = JournalFile(tmp_path / "journal.json")
    asyncio.run(journal.write(Record(CLUSTER_ID, HASH, changes, kafka.racks, racks)))
    monkeypatch.setattr(Connection, "ask", lambda _, question: asyncio.run(question(kafka)))
    options = ("--bootstrap-server", "127.0.0.1:1", "--journal", journal.path, "--throttle", "5kB/s", "-o", "json")

    def run(*arguments):
        began = time.monotonic()
        ran = cli("apply", *options, "--approve", HASH, *arguments)
        return ran, json.loads(ran.out.splitlines()[-1]), time.monotonic() - began

    return run


def test_copy_without_progress_ends_apply_after_its_patience(apply, kafka):
    ran, last, took = apply("--patience", "1")
    assert ran.code == 4
    assert 1 <= took < 20
    assert ran.error == "nothing could be moved for 1 s: 1 copy under way makes no progress"
    assert "1 reassignment under way goes on in Kafka; --cancel takes it back" in ran.err
    assert (last["moved"], last["moves"]) == (1, 2)
    assert kafka.state[FREE].replicas == (0, 2)
    assert not kafka.configs
    assert apply("--cancel")[0].code == 0
    assert (kafka.state[HELD].replicas, kafka.configs) == ((0, 1), {})


def is_waited_for(apply):
    """Check that a run continues beyond its patience and moves both replicas."""
    ran, last, took = apply("--patience", "1")
    assert ran.code == 0, ran.err
    assert took > 1
    assert (last["moved"], last["moves"]) == (2, 2)


def test_apply_waits_for_a_copy_that_receives_bytes(apply, kafka):
    kafka.arrives = 1

    async def sizes(partitions):
        found = await Kafka.sizes(kafka, partitions)
        if kafka.size > 8:
            kafka.catch_up(HELD, 3)
        return found

    kafka.sizes = sizes
    is_waited_for(apply)


def test_apply_waits_for_a_copy_whose_bytes_no_broker_reports(apply, kafka):
    looks = itertools.count()

    async def sizes(_partitions):
        if next(looks) > 8:
            kafka.catch_up(HELD, 3)
        return {}

    kafka.sizes = sizes
    is_waited_for(apply)


def test_replica_list_that_kafka_refuses_ends_apply_at_once_with_the_response_of_kafka(apply, kafka):
    kafka.failure = Failure(Reason.KAFKA_REFUSED, REFUSED, Remedy.RETRY)
    ran, last, took = apply("--patience", "300")
    assert (ran.code, took < 60) == (4, True)
    assert ran.error == f"not all was moved: held-0 is given up: Refused (broker 3; {REFUSED})"
    assert (last["event"], last["moved"], last["moves"]) == ("finished", 1, 2)
    assert not kafka.configs


def test_replica_list_that_fails_repeatedly_ends_apply_after_its_patience_with_the_reason(apply, kafka):
    kafka.failure = Failure(Reason.KAFKA_UNREACHABLE, "Kafka says NotController", Remedy.RETRY)
    ran, last, took = apply("--patience", "1")
    assert ran.code == 4
    assert 1 <= took < 20
    assert ran.error == "nothing could be moved for 1 s: held 0: Kafka says NotController"
    assert "on in Kafka" not in ran.err
    assert (last["moved"], last["moves"]) == (1, 2)
    assert not kafka.configs
