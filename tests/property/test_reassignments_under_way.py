"""A cluster with ongoing reassignments and offline brokers is judged by the replicas that partitions have."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.property import cases
from tests.property.strategies import trees

from rackspan.core.partitions import PartitionState, present_replicas
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations, examine
from rackspan.core.scanning.rules import Rule
from rackspan.core.snapshot import table
from rackspan.core.topology import BrokerLocation

GONE = (998, 999)
"""Brokers that are not in the cluster."""


@dataclass(frozen=True)
class Moving:
    """A partition that moves from the replicas `before` to `target`, as Kafka lists it (KIP-455)."""

    before: tuple[int, ...]
    target: tuple[int, ...]
    in_sync: frozenset[int]
    leader: int | None

    @property
    def state(self):
        listed = (*self.target, *(broker for broker in self.before if broker not in self.target))
        before, target = frozenset(self.before), frozenset(self.target)
        return PartitionState(listed, self.in_sync, self.leader, adding=target - before, removing=before - target)


@st.composite
def clusters(draw):
    tree = draw(trees())
    known = [broker.id for broker in tree.brokers]
    offline = draw(st.sets(st.sampled_from(known), max_size=2))
    replicas = st.lists(st.sampled_from([*known, *GONE]), min_size=1, max_size=4, unique=True).map(tuple)
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        before, target = draw(replicas), draw(replicas)
        target = draw(st.sampled_from([before, target]))
        in_sync = draw(st.sets(st.sampled_from([*before, *target])))
        leader = draw(st.sampled_from([None, *(broker for broker in before if broker in in_sync)]))
        rows.append(Moving(before, target, frozenset(in_sync), leader))
    drained, cordoned, rackless = (draw(st.sets(st.sampled_from(known), max_size=1)) for _ in range(3))
    brokers = tuple(
        BrokerLocation(
            one.id,
            None,
            None if one.id in rackless else one.rack,
            online=one.id not in offline,
            draining=one.id in drained,
            cordoned=one.id in cordoned,
        )
        for one in tree.brokers
    )
    return BrokerLocations(tree.levels, brokers), rows, draw(st.integers(1, 3))


def examined(locations, rows, least):
    """Return the result for partitions with these replicas, and its findings with names."""
    partitions = table(("orders",), [(0, number, *row, 100) for number, row in enumerate(rows)])
    found = examine(locations, partitions, np.array([least]), ClusterRequirements())
    return found, list(found.findings.facts(partitions.names, locations.tree))


@given(clusters())
def test_only_present_replicas_are_judged_and_an_offline_broker_is_one_finding(cluster):
    locations, rows, least = cluster
    present = [present_replicas(one.state.replicas, one.state.adding) for one in rows]
    assert [set(row) for row in present] == [set(one.before) for one in rows]
    assert [len(row) for row in present] == [one.state.replication_factor for one in rows]
    found, facts = examined(
        locations, [(row, one.in_sync, one.leader) for row, one in zip(present, rows, strict=True)], least
    )
    settled, _ = examined(locations, [(one.before, one.in_sync, one.leader) for one in rows], least)
    assert found.broken.tolist() == settled.broken.tolist()
    assert found.moves_of.tolist() == settled.moves_of.tolist()

    held = Counter(broker for one in rows for broker in one.before if broker not in locations.online)
    away = [one for one in facts if one.rule is Rule.BROKER_OFFLINE]
    assert {one.broker: one.excess for one in away} == held
    assert len(away) == len(held)
    for number, one in enumerate(rows):
        lagging = set(one.before) - one.in_sync
        stopped = len(one.in_sync.intersection(one.before)) < min(least, len(one.before))
        expected = set()
        if one.leader is None:
            expected = {Rule.OFFLINE}
        elif stopped or lagging & locations.online:
            expected = {Rule.UNDER_REPLICATED}
        about = [fact for fact in facts if fact.partition == number]
        assert {fact.rule for fact in about} & {Rule.OFFLINE, Rule.UNDER_REPLICATED} == expected
        assert not [fact for fact in about if fact.rule is Rule.NOT_COMPLIANT and fact.broker in held]
        assert {fact.broker for fact in about} <= {None, *one.before}
    cases.counted()
