"""The value to which min.insync.replicas is lowered before replicas are removed."""

import pytest
from tests.unit.reconcile.examples import EVEN, state, topic, topology

from rackspan.core.planning import Change
from rackspan.reconcile.plans.shrinking import lowered, lowered_at_last, min_insync_above_replicas

TWO_ZONES = {"minDomains": {"zone": 2}}
FOUR = {0: "/a", 1: "/a", 2: "/b", 3: "/b"}


def after(durability, before, planned, racks=EVEN, rule=lowered, now=None, **spec):
    """Return the result of the rule for one partition with the replicas `now`, by default those in `before`."""
    shrunk = topic(replicationFactor=len(planned), partitions=1, durability=durability, **spec)
    changes = [Change("orders", 0, planned, before)]
    return rule(shrunk.spec, (now or before,), changes, state(racks))


@pytest.mark.parametrize(
    ("before", "planned", "wanted"),
    [((0, 1, 2, 3, 4, 5), (0, 1, 2), 2), ((0, 1, 2, 3, 4), (0, 1), 1), ((0, 1, 2), (0, 1), 1)],
)
def test_min_insync_is_lowered_to_the_value_derived_for_the_planned_replicas(before, planned, wanted):
    assert after({"tolerate": {"zone": 1}}, before, planned) == wanted


def test_lowered_min_insync_still_covers_the_domains_with_the_current_replicas():
    # With two replicas in each of two zones, two acknowledgements can come from the same zone.
    assert after(TWO_ZONES, (0, 1, 2, 3), (0, 2), FOUR) == 3
    assert after(TWO_ZONES, (0, 2, 1), (0, 2), EVEN) == 2


@pytest.mark.parametrize(
    ("now", "planned", "wanted"),
    [((0, 1, 2, 3), (0, 2), 2), ((0, 1, 2), (0, 2), 2), ((0, 1, 2), (0, 3), None), ((0, 1, 2, 3), (0, 2, 3), 3)],
)
def test_lowered_at_last_uses_the_planned_replicas_once_all_of_them_exist(now, planned, wanted):
    assert after(TWO_ZONES, (0, 1, 2, 3), planned, FOUR, rule=lowered_at_last, now=now) == wanted
    assert after(TWO_ZONES, (0, 1, 2, 3), planned, FOUR, lowered_at_last, config={"min.insync.replicas": 3}) is None


def test_min_insync_stays_if_no_value_is_derived_or_the_durability_is_infeasible():
    for rule in (lowered, lowered_at_last):
        assert after({}, (0, 1, 2), (0,), rule=rule) is None
        assert after({"tolerate": {"zone": 1}}, (0, 1, 2), (0,), rule=rule) is None


def test_an_invalid_rack_path_of_one_topic_does_not_hide_a_min_insync_above_the_replicas():
    four = {"min.insync.replicas": 4}
    odd = topic("odd", config=four, placement={"leaders": ["/eu/\U0001fae8", "/eu/\u0378"]})
    assert min_insync_above_replicas([odd, topic("orders", config=four)], topology().spec) == {"odd": 4, "orders": 4}
