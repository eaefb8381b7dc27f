"""Scans and the operator judge every topic alike, and a derived `min.insync.replicas` satisfies the scan."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.property.cases import counted
from tests.property.test_topology_plans import worlds

from rackspan.api.conditions import ConditionStatus
from rackspan.api.reasons import Reason
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.scanning import examine
from rackspan.core.snapshot import table
from rackspan.reconcile.cluster.racks import locations_of_topology
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.specs.ownership import cluster_requirements
from rackspan.reconcile.specs.placement import managed_config
from rackspan.reconcile.topics.topic_conditions import compliance_result
from rackspan.reconcile.topics.topic_decision import Outcome


@st.composite
def durable_worlds(draw):
    """Draw a world whose topics have a durability. Sometimes no rack is known."""
    world = draw(worlds())
    domains = st.dictionaries(st.sampled_from(world.levels), st.integers(1, 3), max_size=1)
    durability = {"minDomains": draw(domains), "tolerate": draw(domains)}
    unlabelled = frozenset(world.racks) if draw(st.integers(0, 7)) == 0 else world.unlabelled
    return replace(world, unlabelled=unlabelled, topology=world.topology | {"defaults": {"durability": durability}})


def derived(topic, seen, state):
    """Return the `min.insync.replicas` that the operator sets, or None if it sets none."""
    try:
        value = managed_config(topic.spec, seen.replicas, state).values.get(MIN_INSYNC)
    except FailureError:
        return None
    return None if topic.spec.own_min_insync is not None or value is None else int(value)


@given(durable_worlds())
def test_scan_judges_every_topic_like_the_operator(world):
    names, prod, state = sorted(world.specs), world.prod, world.state
    seen = list(world.seen(names))
    rows = [
        (at, number, row, row, row[0], None)
        for at, (_, one) in enumerate(seen)
        for number, row in enumerate(one.replicas)
    ]
    partitions, least = table(names, rows), [derived(topic, one, state) for topic, one in seen]
    locations, required = locations_of_topology(prod), cluster_requirements(prod, [topic for topic, _ in seen])
    found = examine(locations, partitions, np.array([one or 1 for one in least]), required)
    durability = [one for one in found.findings.facts(names, locations.tree) if one.rule.startswith("MinInsync")]
    assert {one.topic for one in durability}.isdisjoint(name for name, one in zip(names, least, strict=True) if one)
    for at, (topic, one) in enumerate(seen):
        mine = partitions.topic == at
        result = compliance_result(Outcome(topic, one), one, state)
        match result.condition.status:
            case ConditionStatus.UNKNOWN if result.condition.reason == Reason.UNKNOWN_LEVEL:
                continue  # a scan leaves out the rule, and warns
            case ConditionStatus.UNKNOWN:
                assert not found.judged[mine].all()
                assert not found.broken[mine].any()
            case status:
                assert (status == ConditionStatus.TRUE) == (not found.broken[mine].any())
                assert result.compliance.non_compliant == np.count_nonzero(found.broken[mine])
                assert result.compliance.moves == found.moves_of[mine].sum()
        counted()
