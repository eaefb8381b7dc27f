"""Plans use only racks that have been stable. A label that flaps starts no plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rack_views import rack_view
from tests.unit.reconcile.examples import topology

from rackspan.reconcile.cache import BrokerPod
from rackspan.reconcile.cluster.state import RACKS_SETTLE_SECONDS, Settling
from rackspan.reconcile.ports import BrokerDescription

ZONES = {"rackSource": "Nodes", "levels": [{"name": "zone", "nodeLabel": "zone"}], "brokers": {"podSelector": {}}}
ABOUT = topology(**ZONES)


def view(zones, about=ABOUT):
    """Return a view of brokers by id with the zone of their node, None if the node has no label."""
    nodes = {f"n{id_}": {"zone": zone} if zone else {} for id_, zone in zones.items()}
    pods = [BrokerPod("kafka", f"kafka-{id_}", {}, {}, f"n{id_}") for id_ in zones]
    return rack_view(about, nodes, pods, [BrokerDescription(id_, "h", f"/{zones[id_]}") for id_ in zones])


def racks(view):
    return {row.id: row.rack and row.rack[0] for row in view.rows}


def test_first_racks_count_as_settled():
    settling, seen = Settling(), view({0: "a", 1: "b"})
    assert settling.settled(ABOUT, seen, 0.0) is seen
    assert settling.due_in(0.0) is None


def test_changed_rack_counts_after_it_has_been_stable():
    settling, changed = Settling(), view({0: "b", 1: "b"})
    settling.settled(ABOUT, view({0: "a", 1: "b"}), 0.0)
    assert racks(settling.settled(ABOUT, changed, 1.0)) == {0: "a", 1: "b"}
    assert settling.due_in(3.0) == RACKS_SETTLE_SECONDS - 2
    assert racks(settling.settled(ABOUT, changed, RACKS_SETTLE_SECONDS + 0.9)) == {0: "a", 1: "b"}
    assert settling.settled(ABOUT, changed, RACKS_SETTLE_SECONDS + 1) is changed
    assert settling.due_in(RACKS_SETTLE_SECONDS + 1) is None


@given(
    st.lists(
        st.tuples(st.floats(0.01, RACKS_SETTLE_SECONDS * 0.99), st.sampled_from(["a", "b", "c", None])), max_size=40
    )
)
def test_flapping_label_never_counts(changes):
    settling, now, zone = Settling(), 0.0, "a"
    settling.settled(ABOUT, view({0: "a", 1: "z"}), now)
    for seconds, wanted in changes:
        now, zone = now + seconds, wanted if wanted != zone else {"a": "b", "b": "c", "c": "a"}.get(zone, "b")
        found = racks(settling.settled(ABOUT, view({0: zone, 1: "z"}), now))
        assert found == {0: None if zone is None else "a", 1: "z"}


def test_unknown_rack_is_not_replaced_by_the_settled_rack():
    settling = Settling()
    settling.settled(ABOUT, view({0: "a"}), 0.0)
    assert racks(settling.settled(ABOUT, view({0: None}), 1.0)) == {0: None}
    back = view({0: "a"})
    assert settling.settled(ABOUT, back, 2.0) is back


def test_unchanged_and_new_brokers_do_not_wait():
    settling = Settling()
    settling.settled(ABOUT, view({0: "a", 1: "b"}), 0.0)
    assert racks(settling.settled(ABOUT, view({0: "c", 1: "b", 2: "d"}), 1.0)) == {0: "a", 1: "b", 2: "d"}


def test_removed_broker_is_forgotten():
    settling = Settling()
    settling.settled(ABOUT, view({0: "a", 1: "b"}), 0.0)
    settling.settled(ABOUT, view({0: "a"}), 1.0)
    again = view({0: "a", 1: "c"})
    assert settling.settled(ABOUT, again, 2.0) is again


def test_change_of_the_spec_counts_at_once():
    settling = Settling()
    settling.settled(ABOUT, view({0: "a"}), 0.0)
    other = topology(**ZONES, rackAliases={"a": "/b"})
    renamed = view({0: "a"}, other)
    assert racks(renamed) == {0: "b"}
    assert settling.settled(other, renamed, 1.0) is renamed


def test_settled_rack_determines_whether_a_broker_is_drained():
    about = topology(**ZONES, drainRacks=["/b"])
    settling = Settling()
    settling.settled(about, view({0: "a"}, about), 0.0)
    changed = view({0: "b"}, about)
    assert [not row.draining for row in changed.rows] == [False]
    assert [not row.draining for row in settling.settled(about, changed, 1.0).rows] == [True]


@pytest.mark.parametrize(("rack_hash", "zone"), [(ABOUT.spec.rack_hash, "a"), ("of another spec", "b")])
def test_new_operator_starts_with_the_racks_of_the_status(rack_hash, zone):
    status = {"rackHash": rack_hash, "brokers": [{"id": 0, "rack": "/a"}, {"id": 1, "rack": "no path//"}]}
    about = topology(**ZONES, status=status)
    assert racks(Settling().settled(about, view({0: "b", 1: "b"}, about), 0.0)) == {0: zone, 1: "b"}


def test_racks_of_the_status_are_unproven_until_this_operator_has_seen_them_stable():
    status = {"rackHash": ABOUT.spec.rack_hash, "brokers": [{"id": 0, "rack": "/b"}, {"id": 1, "rack": "/b"}]}
    about = topology(**ZONES, status=status)
    settling, flapped, right = Settling(), view({0: "b", 1: "b"}, about), view({0: "a", 1: "b"}, about)
    settling.settled(about, flapped, 0.0)
    assert settling.unproven == {0, 1}
    settling.settled(about, right, 5.0)
    settling.settled(about, right, RACKS_SETTLE_SECONDS)
    assert settling.unproven == {0}
    settling.settled(about, right, RACKS_SETTLE_SECONDS + 5)
    assert settling.unproven == set()
    assert racks(settling.settled(about, flapped, RACKS_SETTLE_SECONDS + 6)) == {0: "a", 1: "b"}
    assert settling.unproven == set()
