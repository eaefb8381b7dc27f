"""The best assignment compared with the results of the assignors of Kafka's own client, in thousands of groups."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rackspan.core.consumers.assignors import Readers, assign_evenly, assign_ranges

GROUPS = 2_000
BEST = {"range": assign_ranges, "cooperative-sticky": assign_evenly}
HARNESS = Path(__file__).with_name("KafkaAssignors.java")


@pytest.fixture(scope="module")
def kafkas(kafka_distribution, tmp_path_factory):
    """A function that returns the owners of the partitions of several groups from Kafka's assignor."""
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("no javac on this machine: what asks Kafka's assignors has to be compiled")
    folder, jars = tmp_path_factory.mktemp("assignors"), ":".join(map(str, kafka_distribution.jars))
    subprocess.run([javac, "-cp", jars, "-d", str(folder), str(HARNESS)], check=True)
    command = [str(kafka_distribution.java), "-Dlog4j2.level=OFF", "-cp", f"{folder}:{jars}", "KafkaAssignors"]

    def ask(assignor, groups):
        lines = "".join(f"{assignor}|{line(*group)}\n" for group in groups)
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=600)
        return [np.array(answer.split(","), dtype=np.int64) for answer in done.stdout.splitlines()]

    return ask


def line(members, topics):
    rows = (",".join("+".join(map(str, racks)) for racks in topic) for topic in topics)
    return f"{','.join(map(str, members))}|{';'.join(rows)}"


def anywhere(chance):
    """Return members and replicas in random racks, of a few."""
    racks = int(chance.integers(2, 5))
    size = int(chance.integers(1, racks + 1))
    members = chance.integers(0, racks, chance.integers(1, 9)).tolist()
    partitions = chance.integers(1, 13, chance.integers(1, 4)).tolist()
    return members, [[chance.choice(racks, size, replace=False).tolist() for _ in range(n)] for n in partitions]


def striped(chance):
    """Return the same number of members per rack, and replicas of successive partitions in successive racks."""
    racks = int(chance.integers(2, 5))
    size = int(chance.integers(1, racks + 1))
    members = [at % racks for at in range(racks * int(chance.integers(1, 4)))]
    partitions = (racks * chance.integers(1, 5, chance.integers(1, 4))).tolist()
    return members, [[[(at + step) % racks for step in range(size)] for at in range(n)] for n in partitions]


def readers(members, topics):
    rows = [(topic, number, racks) for topic, every in enumerate(topics) for number, racks in enumerate(every)]
    near = np.zeros((len(rows), 1 + max(*members, *(max(racks) for *_, racks in rows))), dtype=bool)
    for row, (*_, racks) in enumerate(rows):
        near[row, racks] = True
    topic, number = np.array([row[:2] for row in rows]).T
    return Readers(topic, number, near, np.array(members), np.ones((len(members), len(topics)), dtype=bool))


@pytest.mark.parametrize(
    ("assignor", "groups", "least"),
    [
        ("cooperative-sticky", striped, 1.0),
        ("range", striped, 0.95),
        ("cooperative-sticky", anywhere, 0.97),
        ("range", anywhere, 0.75),
    ],
)
def test_kafka_assignors_never_beat_the_best_assignment_and_often_reach_it(kafkas, assignor, groups, least):
    chance = np.random.default_rng(5)
    asked = [groups(chance) for _ in range(GROUPS)]
    reached = 0
    for group, owner in zip(asked, kafkas(assignor, asked), strict=True):
        given = readers(*group)
        best = BEST[assignor](given)
        near = int(given.near[np.arange(len(owner)), given.domain[owner]].sum())
        assert near <= best.near
        reached += near == best.near
        if assignor == "cooperative-sticky":  # the partition counts per member are the same too
            counts = [np.sort(np.bincount(each, minlength=len(given.domain))) for each in (owner, best.owner)]
            assert counts[0].tolist() == counts[1].tolist()
    assert reached >= least * GROUPS
