"""Groups on real brokers with the plug-in's assignor (KIP-848), with Kafka's, and with the one for Python clients."""

import threading
import time
from collections import Counter

import numpy as np
import pytest
from confluent_kafka import Consumer
from dev.waiting import eventually
from tests.plugins.conftest import HEARTBEAT_SECONDS
from tests.support.python_consumers import python_consumer
from tests.support.topics import Topics

from rackspan.core.consumers.assignors import Readers, assign_evenly
from rackspan.kafka.client_assignors import RackAwareRange

ASSIGNORS = ("rack-aware", "uniform", "range")
PARTITIONS = 12
ZONES = ("/us/us-1a", "/us/us-1b", "/us/us-1c", "/eu/eu-1a")
"""The zones of brokers 0 to 3. Consumers are in other racks of these zones."""
REPLICAS = [[number % 4, (number + 1) % 4] for number in range(PARTITIONS)]
"""No zone has three consecutive partitions, which an assignor without racks would give to one member."""
CONSUMER = {"group.protocol": "consumer", "max.poll.interval.ms": 15_000}
"""If a heartbeat response is late, librdkafka 2.16 does not revoke its partitions and is removed after this time."""


class Group:
    """Consumers with their zones. They are polled in turns."""

    def __init__(self, brokers, topic, assignor):
        self._config = {
            **brokers.client_config(),
            "group.id": f"by-{assignor}",
            **CONSUMER,
            "group.remote.assignor": assignor,
        }
        self._topic = topic
        self._consumers = []

    def join(self, zone, subscription):
        consumer = Consumer({**self._config, "client.rack": f"{ZONES[zone]}/r9"})
        consumer.subscribe([subscription])
        self._consumers.append((zone, consumer))

    def assigned(self):
        """Poll all members and return the partition numbers of each."""
        for _, consumer in self._consumers:
            consumer.poll(0.01)
        return [{partition.partition for partition in consumer.assignment()} for _, consumer in self._consumers]

    def settled(self):
        """Return the assignment if it is as even as possible and complete, else None."""
        found = self.assigned()
        counts = Counter(number for numbers in found for number in numbers)
        sizes = [len(numbers) for numbers in found]
        return found if max(sizes) - min(sizes) <= 1 and counts == Counter(range(PARTITIONS)) else None

    def near(self, assigned):
        zones = [zone for zone, _ in self._consumers]
        return sum(
            zone in REPLICAS[number] for zone, numbers in zip(zones, assigned, strict=True) for number in numbers
        )

    def best(self):
        """Return how many partitions can be near, as computed by the core."""
        near = np.array([[zone in replicas for zone in range(len(ZONES))] for replicas in REPLICAS])
        here = np.array([zone for zone, _ in self._consumers])
        one_topic = np.zeros(PARTITIONS, dtype=np.int64)
        return assign_evenly(Readers(one_topic, np.arange(PARTITIONS), near, here, np.ones((len(here), 1), bool))).near

    def close(self):
        for _, consumer in self._consumers:
            consumer.close()


@pytest.fixture
def groups(brokers):
    topic = "assigned"
    Topics(brokers.admin()).create(topic, REPLICAS)
    made = {assignor: Group(brokers, topic, assignor) for assignor in ASSIGNORS}
    yield made
    for group in made.values():
        group.close()


def settle(groups):
    """Poll all groups until their assignments are even and complete."""
    done = {}

    def settled():
        done.update({name: group.settled() for name, group in groups.items()})
        return all(done.values())

    eventually(settled, "all groups to have an even assignment", interval=0.1)
    return done


def test_group_with_the_plugin_assignor_gets_at_least_as_many_near_partitions_as_with_kafkas(groups):
    for group in groups.values():
        for zone in range(len(ZONES)):
            group.join(zone, "assigned" if zone else "^assig.*")
    first = settle(groups)
    near = {name: group.near(first[name]) for name, group in groups.items()}
    for group in groups.values():
        group.join(3, "assigned")
    second = settle(groups)
    after = {name: group.near(second[name]) for name, group in groups.items()}
    moved = {
        name: sum(len(new - old) for new, old in zip(second[name], [*first[name], set()], strict=True))
        for name in groups
    }
    told = f"near of {PARTITIONS}, four members: {near}; a fifth: {after}, moved: {moved}"
    assert near["rack-aware"] == PARTITIONS, told
    assert after["rack-aware"] == groups["rack-aware"].best(), told
    assert all(near["rack-aware"] >= near[name] for name in groups)
    assert all(after["rack-aware"] >= after[name] for name in groups)


def test_static_members_that_return_in_other_racks_are_near_after_the_next_rebalance(brokers):
    """KAFKA-20909: the new rack of a member starts no rebalance."""
    topic, us, eu = "swapped", "/us/us-1a/r9", "/eu/eu-1a/r9"
    Topics(brokers.admin()).create(topic, [[0], [0], [3], [3]])
    config = {
        **brokers.client_config(),
        "group.id": topic,
        **CONSUMER,
        "group.remote.assignor": "rack-aware",
    }

    def member(rack, **own):
        consumer = Consumer({**config, "client.rack": rack, **own})
        consumer.subscribe([topic])
        return consumer

    def static_members(*racks):
        return [member(rack, **{"group.instance.id": f"static-{number}"}) for number, rack in enumerate(racks)]

    def assigned(members):
        for one in members:
            one.poll(0.05)
        return [sorted(partition.partition for partition in one.assignment()) for one in members]

    def until_assigned(members, expected):
        eventually(lambda: assigned(members) == expected, f"the members to have {expected}")

    members = static_members(us, eu)
    try:
        until_assigned(members, [[0, 1], [2, 3]])
        for one in members:
            one.close()
        members = static_members(eu, us)
        until_assigned(members, [[0, 1], [2, 3]])
        came_back = time.monotonic()
        while time.monotonic() < came_back + 3 * HEARTBEAT_SECONDS:
            assert assigned(members) == [[0, 1], [2, 3]]
        members.append(member(us))
        eventually(lambda: assigned(members) in ([[2, 3], [0], [1]], [[2, 3], [1], [0]]), "a member more to have work")
        members.pop().close()
        until_assigned(members, [[2, 3], [0, 1]])
    finally:
        for one in members:
            one.close()


def test_python_assignor_gives_members_of_a_classic_group_near_partitions(brokers):
    topic, racks = "classic", brokers.racks
    Topics(brokers.admin()).create(topic, REPLICAS)
    members = [
        python_consumer(brokers.bootstrap(), "by-python", [topic], RackAwareRange(rack), rack)
        for rack in racks.values()
    ]

    ended = threading.Event()
    assigned = dict.fromkeys(range(len(members)), ())

    def read(number, one):
        while not ended.is_set():
            one.poll(timeout_ms=500)
            assigned[number] = one.assignment()
        one.close()

    threads = [threading.Thread(target=read, args=pair) for pair in enumerate(members)]
    for thread in threads:
        thread.start()

    def settled():
        counts = Counter(partition.partition for some in assigned.values() for partition in some)
        return counts == Counter(range(PARTITIONS)) and all(len(some) == 3 for some in assigned.values())

    try:
        eventually(settled, "the group to have an even assignment", interval=0.1)
        # Member and broker have the same number, because members are in the racks of the brokers.
        far = [
            partition.partition
            for broker, number in zip(racks, range(len(members)), strict=True)
            for partition in assigned[number]
            if broker not in REPLICAS[partition.partition]
        ]
        assert far == []
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
