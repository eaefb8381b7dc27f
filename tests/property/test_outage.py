"""Outages, compared with an oracle that counts each loss partition by partition in plain Python."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.property import cases
from tests.property.strategies import closed, trees

from rackspan.core.outage import Outage, outage_of, outages
from rackspan.core.partitions import TopicPartition
from rackspan.core.snapshot import table

GONE = 999
"""A broker that is not in the tree."""


@dataclass(frozen=True)
class Row:
    topic: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    eligible: frozenset[int]
    size: int | None


@st.composite
def clusters(draw):
    tree, _ = draw(closed(draw(trees())))
    ids = [*(broker.id for broker in tree.brokers), GONE]
    needed = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    sizes = st.none() | st.integers(0, 2**63 - 1)
    rows = []
    for topic in range(len(needed)):
        for _ in range(draw(st.integers(0, 4))):
            replicas = draw(st.lists(st.sampled_from(ids), min_size=1, max_size=5, unique=True))
            isr = draw(st.sets(st.sampled_from(replicas)))
            eligible = draw(st.sets(st.sampled_from(replicas))) - isr if draw(st.booleans()) else ()
            rows.append(Row(topic, tuple(replicas), frozenset(isr), frozenset(eligible), draw(sizes)))
    return tree, rows, needed


def columns(rows, needed):
    numbered = [(row.topic, at, row.replicas, row.isr, None, row.size) for at, row in enumerate(rows)]
    names = [f"topic-{at}" for at in range(len(needed))]
    eligible = {TopicPartition(names[row.topic], at): row.eligible for at, row in enumerate(rows)}
    return table(names, numbered, eligible), np.array(needed)


def expected(rows, needed, there, lost):
    left = [len((row.isr & there) - lost) for row in rows]
    leads = [count or bool((row.eligible & there) - lost) for count, row in zip(left, rows, strict=True)]
    held = [[broker for broker in row.replicas if broker in lost] for row in rows]
    there_known = [row.size is not None for on, row in zip(held, rows, strict=True) if on]
    known = any(row.size is not None for row in rows) and (any(there_known) or not there_known)
    return Outage(
        offline=sum(not one for one in leads),
        not_writable=sum(
            count < max(min(needed[row.topic], len(row.replicas)), 1) for count, row in zip(left, rows, strict=True)
        ),
        last_replica=sum(count == 1 for count in left),
        replicas=sum(map(len, held)),
        size_bytes=sum(len(on) * (row.size or 0) for on, row in zip(held, rows, strict=True)) if known else None,
    )


@given(clusters())
def test_outage_of_every_domain_of_every_level_matches_the_oracle(cluster):
    tree, rows, needed = cluster
    there = {broker.id for broker in tree.brokers if broker.online}
    partitions, least = columns(rows, needed)
    found = list(outages(tree, partitions, least))
    assert [row.level for row in found] == [level.name for level in tree.nodes[1:] for _ in level.paths]
    domains = [tree.ids[level.of_broker == at].tolist() for level in tree.nodes[1:] for at in range(len(level))]
    for row, lost in zip(found, domains, strict=True):
        assert row.brokers == len(lost)
        assert row.outage == expected(rows, needed, there, set(lost))
        assert row.outage == outage_of(tree, partitions, least, lost)
        cases.counted()


@given(clusters(), st.data())
def test_outage_of_several_brokers_matches_the_oracle(cluster, data):
    tree, rows, needed = cluster
    there = {broker.id for broker in tree.brokers if broker.online}
    lost = data.draw(st.sets(st.sampled_from(tree.ids.tolist())))
    assert outage_of(tree, *columns(rows, needed), lost) == expected(rows, needed, there, lost)
    cases.counted()


@given(clusters())
def test_outage_of_no_broker_loses_no_replica_and_outage_of_all_brokers_stops_everything(cluster):
    tree, rows, needed = cluster
    partitions, least = columns(rows, needed)
    assert outage_of(tree, partitions, least, []).replicas == 0
    everything = outage_of(tree, partitions, least, tree.ids.tolist())
    assert everything.offline == everything.not_writable == len(rows)
    cases.counted()
