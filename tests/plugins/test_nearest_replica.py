"""The replica selector for brokers, with the test cases of the core, and compared with the core on random input."""

import json
import random

import numpy as np
import pytest
from dev.paths import REPOSITORY

from rackspan.core.consumers.group_locality import ReplicaPlaces, nearest
from rackspan.core.snapshot import table
from rackspan.core.topology import Broker, BrokerLocation, RackTree

CASES = json.loads((REPOSITORY / "plugins/cases/nearest_replica.json").read_text())
OURS = "dev.rackspan.kafka.NearestReplicaSelector"
KAFKAS = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
MANY = 5_000
STEPS = (
    "eu",
    "us",
    "eu-1a",
    "eu-1",
    "..",
    ".",
    "r 1",
    "",
    "\t",
    "\u200b",
    "\u00a0",
    "zürich",
    "架",
    "\U0001f4a1",
    "x" * 1000,
)


def test_selector_chooses_the_expected_replica_of_each_case(java):
    served = java("ReplicaSelections", OURS, given=CASES)
    wanted = [case.get("serves", case["nearest"][0]) for case in CASES]
    assert dict(zip([case["about"] for case in CASES], served, strict=True)) == dict(
        zip([case["about"] for case in CASES], wanted, strict=True)
    )


def some_rack(chance):
    steps = chance.choices(STEPS[:3] if chance.random() < 0.7 else STEPS, k=chance.randint(0, 4))
    return chance.choice(["", "/", "/"]) + "/".join(steps) if chance.random() < 0.95 else None


@pytest.fixture(scope="module")
def groups():
    """Return clients and replicas in random racks. Many rack ids are not paths."""
    chance = random.Random(11)
    return [
        {
            "client": some_rack(chance),
            "leader": 0,
            "replicas": {str(broker): some_rack(chance) for broker in range(chance.randint(1, 5))},
        }
        for _ in range(MANY)
    ]


def steps_in_common(case):
    """Return the shared steps for each broker of a case, and the chosen broker, by the core."""
    ids = {int(broker): rack for broker, rack in case["replicas"].items()}
    tree = RackTree((), tuple(Broker(broker, None) for broker in ids))
    rows = table(["topic"], [(0, 0, list(ids), list(ids), case["leader"], None)])
    replicas = ReplicaPlaces(tree, [BrokerLocation(broker, rack) for broker, rack in ids.items()], rows)
    chosen = int(tree.ids[nearest(replicas, np.array([0]), [case["client"]])[0]])
    return replicas.shared_steps(replicas.at[[0]], [case["client"]])[0].tolist(), chosen


def test_core_predicts_a_replica_as_near_as_the_one_of_the_selector(java, groups):
    followers = 0
    for case, served in zip(groups, java("ReplicaSelections", OURS, given=groups), strict=True):
        steps, foretold = steps_in_common(case)
        assert steps[served] == steps[foretold] == max(steps), case
        assert (served == 0) == (foretold == 0), case
        followers += served != 0
    assert followers > MANY / 10


def test_selector_finds_a_replica_in_the_clients_rack_if_kafkas_selector_does(java, groups):
    same_rack = java("ReplicaSelections", KAFKAS, given=groups)
    for case, served, kafkas in zip(groups, java("ReplicaSelections", OURS, given=groups), same_rack, strict=True):
        if case["client"] and case["replicas"][str(kafkas)] == case["client"]:
            inside = case["replicas"][str(served)].removeprefix("/") + "/"
            assert inside.startswith(case["client"].removeprefix("/") + "/"), case
