"""Snapshots and the operator read the replicas of partitions without those that a reassignment adds."""

import asyncio

import pytest
from tests.support.hostile_kafka import HostileKafka

from rackspan.kafka.admin import ConfluentAdmin
from rackspan.kafka.cluster_snapshot import reassignment_warnings, take_portion, take_snapshot
from rackspan.kafka.command_config import command_properties

_TOPICS = {"logs": [[2]], "orders": [[0, 1], [2, 0, 1]]}
_CLUSTER_AUTHORIZATION_FAILED = 31


def under_way(*partitions):
    """Return a mutation: these partitions (number, replicas, adding, removing) of `orders` are being reassigned."""

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
    """Mutate a response: the client may not list reassignments."""
    if answer.name == "ListPartitionReassignmentsResponse":
        answer.error_code = _CLUSTER_AUTHORIZATION_FAILED
    return answer


def lists(snapshot):
    """Return the replica lists by topic and partition number."""
    partitions = snapshot.partitions
    return {
        (partitions.names[topic], number): [broker for broker in row if broker >= 0]
        for topic, number, row in zip(
            partitions.topic.tolist(), partitions.number.tolist(), partitions.replicas.tolist(), strict=True
        )
    }


BEFORE = {("logs", 0): [2], ("orders", 0): [0, 1], ("orders", 1): [0, 1]}
AS_LISTED = {**BEFORE, ("orders", 1): [2, 0, 1]}


def test_snapshot_omits_replicas_that_a_reassignment_adds():
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


def test_snapshot_keeps_replicas_that_a_reassignment_removes():
    with HostileKafka(under_way((1, [2, 0, 1], [], [2])), topics=_TOPICS) as kafka:
        found = take_snapshot(command_properties(kafka.address))
    assert lists(found.snapshot) == AS_LISTED
    assert found.warnings[0].startswith("1 partition is being reassigned")


def test_snapshot_without_a_reassignment_has_no_warning():
    with HostileKafka(topics=_TOPICS) as kafka:
        found = take_snapshot(command_properties(kafka.address))
    assert lists(found.snapshot) == AS_LISTED
    assert found.warnings == ()


def ends_after(lists_before, *partitions):
    """Return a mutation: these partitions are being reassigned, and not any more after `lists_before` lists."""
    before, seen = under_way(*partitions), []

    def mutated(answer):
        if answer.name == "ListPartitionReassignmentsResponse":
            seen.append(answer)
        return before(answer) if len(seen) <= lists_before else answer

    return mutated


@pytest.mark.parametrize(
    ("removing", "replicas"),
    [([0], [0, 1]), ([3], [2, 0, 1]), ([], [2, 0, 1])],
    ids=["read before its end", "read after its end", "only adds"],
)
def test_snapshot_has_no_extra_replica_if_a_reassignment_ends_while_it_is_taken(removing, replicas):
    for take in (take_snapshot, lambda properties: take_portion(properties, ["logs", "orders"])):
        with HostileKafka(ends_after(1, (1, [2, 0, 1, *removing], [2], removing)), topics=_TOPICS) as kafka:
            found = take(command_properties(kafka.address))
        assert lists(found.snapshot) == {**BEFORE, ("orders", 1): replicas}


def test_snapshot_reads_no_configs_between_its_two_lists_of_reassignments():
    """A reassignment that begins and ends in between is not known, so this time must be short."""
    for take in (take_snapshot, lambda properties: take_portion(properties, ["logs", "orders"])):
        seen = []

        def recorded(answer, seen=seen):
            seen.append(answer.name)
            return answer

        with HostileKafka(recorded, topics=_TOPICS) as kafka:
            take(command_properties(kafka.address))
        first, last = (at for at, name in enumerate(seen) if name == "ListPartitionReassignmentsResponse")
        assert "DescribeConfigsResponse" not in seen[first:last]
        assert "DescribeConfigsResponse" in seen[last:]


def test_snapshot_counts_only_the_reassignment_that_its_row_shows():
    """One reassignment replaces broker 0 by 2, and ends. The next one replaces broker 2 by 0."""
    first, second = under_way((1, [2, 0, 1], [2], [0])), under_way((1, [2, 0, 1], [0], [2]))
    lists_seen = []

    def mutated(answer):
        if answer.name == "ListPartitionReassignmentsResponse":
            lists_seen.append(answer)
        return first(answer) if len(lists_seen) == 1 else second(answer)

    with HostileKafka(mutated, topics=_TOPICS) as kafka:
        found = take_snapshot(command_properties(kafka.address))
    assert lists(found.snapshot)["orders", 1] == [2, 1]


def garbled(answer):
    """Mutate a response: the list of reassignments cannot be decoded."""
    return b"" if answer.name == "ListPartitionReassignmentsResponse" else answer


@pytest.mark.parametrize("mutate", [refused, garbled])
def test_snapshot_has_a_warning_if_reassignments_cannot_be_listed(mutate):
    with HostileKafka(mutate, topics=_TOPICS) as kafka:
        found = take_snapshot(command_properties(kafka.address))
    assert lists(found.snapshot) == AS_LISTED
    (warning,) = found.warnings
    assert warning.startswith("which partitions are being reassigned is not known")


def behind(*others):
    """Return a mutation: in partition 1 of `orders`, broker 2 is not in sync. Then apply `others`."""

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
    """Return the replicas of `orders` that the operator reads, and how often it lists reassignments."""
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


def test_operator_omits_replicas_that_are_being_added_and_not_in_sync():
    assert read(behind(ADDING)) == (((0, 1), (0, 1)), 2)


def test_operator_does_not_list_reassignments_while_all_replicas_are_in_sync():
    assert read(ADDING) == (((0, 1), (2, 0, 1)), 0)


@pytest.mark.parametrize("fault", [refused, garbled])
def test_operator_reads_all_replicas_if_reassignments_cannot_be_listed(fault):
    """The operator does not list reassignments again within half a minute."""
    replicas, calls = read(behind(fault))
    assert (replicas, calls) == (((0, 1), (2, 0, 1)), 1)
