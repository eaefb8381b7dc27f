"""A plan as Kafka's own tools take it."""

import sys
from collections.abc import Iterator

import numpy as np

from rackspan.cli.rendering.printed_documents import json_lines
from rackspan.cli.rendering.stderr_lines import note
from rackspan.core.planning import Plan
from rackspan.core.snapshot import NONE, Partitions


def print_reassignment(plan: Plan, partitions: Partitions) -> None:
    """
    Print what `kafka-reassign-partitions.sh --execute` takes.

    That tool creates no partitions: those are named on standard error, with the command that does.
    """
    moves = (
        {"topic": change.topic, "partition": change.partition, "replicas": change.replicas}
        for change in plan.changes
        if change.before
    )
    sys.stdout.writelines(json_lines({"version": 1, "partitions": moves}))
    for command in _creations(plan, partitions):
        note(f"partitions are created by another tool: {command}")
    if plan.empty:
        note("there is nothing to do: the list is empty")


def _creations(plan: Plan, partitions: Partitions) -> Iterator[str]:
    changed = {(change.topic, change.partition): change.replicas for change in plan.changes}
    for topic in sorted({change.topic for change in plan.changes if not change.before}):
        rows = np.flatnonzero(partitions.topic == partitions.names.index(topic))
        # The tool wants a list for every partition, all of one length, and passes over those that are there already.
        now = {
            number: tuple(broker for broker in row if broker != NONE)
            for number, row in enumerate(partitions.replicas[rows].tolist())
        }
        planned = now | {number: replicas for (name, number), replicas in changed.items() if name == topic}
        assignment = ",".join(":".join(map(str, planned[number])) for number in range(len(planned)))
        yield (
            f"kafka-topics.sh --bootstrap-server HOST:PORT --alter --topic {topic} --partitions {len(planned)} "
            f"--replica-assignment {assignment}"
        )
