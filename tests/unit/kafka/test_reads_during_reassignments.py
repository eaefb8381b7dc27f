"""Snapshots, and what the operator reads, have the replicas of partitions without those that a reassignment adds."""

import asyncio

import pytest
from tests.support.hostile_kafka import HostileKafka

from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.cluster_snapshot import reassignment_warnings, take_portion, take_snapshot
from rackspan.kafka.command_config import command_properties

_TOPICS = {"logs": [[2]], "orders": [[0, 1], [2, 0, 1]]}
_CLUSTER_AUTHORIZATION_FAILED = 31


def under_way(*partitions):
    """A mutation: of topic `orders`, the partitions (number, replicas, adding, removing) are being reassigned."""

    def mutated(answer):
        if answer.name == "ListPartitionReassignmentsResponse":
            topic = answer.OngoingTopicReassignment
            rows = [
                topic.OngoingPartitionReassignment(
                    version=answer.version,
                    partition_index=number,
                    replicas=replicas,
                    adding_replicas=adding,
                    removing_replicas=removing,
                )
                for number, replicas, adding, removing in partitions
            ]
            answer.topics = [topic(version=answer.version, name="orders", partitions=rows)]
        return answer

    return mutated


def refused(answer):
    """A mutation: the client may not list reassignments."""
    if answer.name == "ListPartitionReassignmentsResponse":
        answer.error_code = _CLUSTER_AUTHORIZATION_FAILED
    return answer


def lists(snapshot):
    """Replica lists by topic and number."""
    partitions = snapshot.partitions
    return {
        (partitions.names[topic], number): [broker for broker in row if broker >= 0]
        for topic, number, row in zip(
            partitions.topic.tolist(), partitions.number.tolist(), partitions.replicas.tolist(), strict=True
        )
    }


BEFORE = {("logs", 0): [2], ("orders", 0): [0, 1], ("orders", 1): [0, 1]}
AS_LISTED = {**BEFORE, ("orders", 1): [2, 0, 1]}


def test_replicas_that_are_being_added_are_not_the_partitions_own():
    with HostileKafka(under_way((1, [2, 0, 1], [2], [0])), topics=_TOPICS) as kafka:
        found = take_snapshot(command_properties(kafka.address))
        portion = take_portion(command_properties(kafka.address), ["orders"])
        warnings = reassignment_warnings(command_properties(kafka.address))
    assert lists(found.snapshot) == BEFORE
    assert lists(portion.snapshot) == {at: row for at, row in BEFORE.items() if at[0] == "orders"}
    assert found.warnings == warnings
    (warning,) = warnings
    assert warning == (
        "1 partition is being reassigned, and taken without the replicas that are being added; rackspan apply does not "
        "move it until that has ended or is cancelled"
    )


def test_a_partition_that_only_loses_replicas_keeps_them_until_they_are_gone():
    with HostileKafka(under_way((1, [2, 0, 1], [], [2])), topics=_TOPICS) as kafka:
        found = take_snapshot(command_properties(kafka.address))
    assert lists(found.snapshot) == AS_LISTED
    assert found.warnings[0].startswith("1 partition is being reassigned")


def test_without_a_reassignment_there_is_no_warning():
    with HostileKafka(topics=_TOPICS) as kafka:
        found = take_snapshot(command_properties(kafka.address))
    assert lists(found.snapshot) == AS_LISTED
    assert found.warnings == ()


def garbled(answer):
    """A mutation: nobody can read which partitions are being reassigned."""
    return b"" if answer.name == "ListPartitionReassignmentsResponse" else answer


@pytest.mark.parametrize("mutate", [refused, garbled])
def test_a_snapshot_is_taken_although_reassignments_cannot_be_listed(mutate):
    with HostileKafka(mutate, topics=_TOPICS) as kafka:
        found = take_snapshot(command_properties(kafka.address))
    assert lists(found.snapshot) == AS_LISTED
    (warning,) = found.warnings
    assert warning.startswith("which partitions are being reassigned is not known")


def behind(*others):
    """Mutations: in partition 1 of topic `orders`, broker 2 is not in sync; and `others`."""

    def mutated(answer):
        if answer.name == "MetadataResponse":
            for topic in answer.topics:
                for partition in topic.partitions:
                    if (topic.name, partition.partition_index) == ("orders", 1):
                        partition.isr_nodes = [0, 1]
        for other in others:
            answer = other(answer)
        return answer

    return mutated


def read(mutate):
    """The replicas of topic `orders` as the operator reads them, and how often it lists reassignments."""
    called = []

    def noted(answer):
        called.append(answer.name)
        return mutate(answer)

    async def asked(address):
        admin = ConfluentAdmin({"bootstrap.servers": address})
        try:
            await admin.cluster()
            return (await admin.topics(["orders"]))["orders"].replicas, (await admin.assignments())["orders"]
        finally:
            await admin.close()

    with HostileKafka(noted, topics=_TOPICS) as kafka:
        by_name, of_all = asyncio.run(asked(kafka.address))
    assert by_name == of_all
    return by_name, called.count("ListPartitionReassignmentsResponse")


ADDING = under_way((1, [2, 0, 1], [2], [0]))


def test_the_operator_reads_no_replica_that_is_being_added_and_is_not_in_sync():
    assert read(behind(ADDING)) == (((0, 1), (0, 1)), 2)


def test_the_operator_asks_for_no_reassignments_while_all_replicas_are_in_sync():
    assert read(ADDING) == (((0, 1), (2, 0, 1)), 0)


@pytest.mark.parametrize("fault", [refused, garbled])
def test_the_operator_reads_all_listed_replicas_where_reassignments_cannot_be_listed(fault):
    """It asks no second time within half a minute."""
    replicas, calls = read(behind(fault))
    assert (replicas, calls) == (((0, 1), (2, 0, 1)), 1)
