"""The output of `rackspan` does not depend on the order of brokers, topics and partitions in a snapshot."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property import cases
from tests.support.command import cli, cluster

RACKS = ("/a/1", "/a/2", "/b/1", "/b/2", "/c/1")
NAMES = ("orders", "payments", "Orders", "orders-2", "a.b")


@st.composite
def listed_twice(draw):
    """Draw a snapshot, and the same one with brokers, topics and partitions in another order."""
    ids = draw(st.lists(st.integers(0, 99), min_size=2, max_size=6, unique=True))
    racks = {broker: draw(st.sampled_from(RACKS)) for broker in ids}
    topics = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
        size = draw(st.integers(1, min(3, len(ids))))
        partitions = []
        for number in range(draw(st.integers(1, 3))):
            replicas = draw(st.permutations(ids))[:size]
            isr = draw(st.lists(st.sampled_from(replicas), unique=True))
            leader = draw(st.none() | st.sampled_from(replicas))
            partitions.append({"partition": number, "replicas": replicas, "isr": isr, "leader": leader})
        topics.append({"name": name, "partitions": partitions, "config": {"min.insync.replicas": size}})
    shuffled = [
        {**topic, "partitions": draw(st.permutations(topic["partitions"]))} for topic in draw(st.permutations(topics))
    ]
    other = {broker: racks[broker] for broker in draw(st.permutations(ids))}
    return cluster(*topics, racks=racks), cluster(*shuffled, racks=other)


@settings(max_examples=settings.default.max_examples // 4)  # each example runs eight commands
@given(documents=listed_twice())
def test_findings_plans_and_outages_do_not_depend_on_the_order_of_the_snapshot(documents):
    cases.counted()
    for command in (("check", "-o", "json"), ("check", "--all"), ("plan", "-o", "json"), ("what-if", "-o", "json")):
        one, other = (cli(*command, "--snapshot", "-", stdin=json.dumps(document)) for document in documents)
        assert one == other
