"""The brokers and racks that a RackTopology drains, and changes of them."""

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.reconcile.examples import SIX, topology

from rackspan.api import racktopology
from rackspan.api.drains import Drains, brokers_of, draining
from rackspan.core.rack_path import split_rack

STATUS = {"brokers": [{"id": broker, "rack": rack} for broker, rack in SIX.items()]}
DRAINS = st.builds(
    Drains,
    st.lists(st.integers(0, 5), unique=True).map(tuple),
    st.lists(st.sampled_from(["/eu", "eu", "/eu/eu-1a", "us", "a b", "//"]), unique=True).map(tuple),
)


def test_rack_is_the_same_with_and_without_its_leading_slash():
    known = Drains((4,), ("eu/eu-1a",))
    assert known.with_added(Drains((4, 5), ("/eu/eu-1a", "us"))) == Drains((4, 5), ("eu/eu-1a", "/us"))
    assert known.without(Drains((9,), ("/eu/eu-1a",))) == Drains((4,), ())
    assert known.targets == ("4", "/eu/eu-1a")


@given(DRAINS, DRAINS)
def test_added_targets_are_present_and_removed_targets_are_absent(known, more):
    added = known.with_added(more)
    assert set(added.targets) == {*known.targets, *more.targets}
    assert added.with_added(more) == added
    left = added.without(more)
    assert set(left.targets) == set(known.targets).difference(more.targets)
    assert added.brokers[: len(known.brokers)] == known.brokers


def test_patch_has_only_the_changed_fields():
    known = Drains((4,), ("/us",))
    assert known.patch(known) == []
    assert known.with_added(Drains((5,))).patch(known) == [{"op": "add", "path": "/spec/drainBrokers", "value": [4, 5]}]
    assert known.without(known).patch(known) == [
        {"op": "add", "path": "/spec/drainBrokers", "value": []},
        {"op": "add", "path": "/spec/drainRacks", "value": []},
    ]


def test_brokers_of_drains_are_the_listed_ones_and_those_in_a_listed_rack():
    seen = topology(status=STATUS)
    assert brokers_of(seen, Drains((5,), ("eu/eu-1a",))) == {0, 1, 5}
    assert brokers_of(seen, Drains(racks=("/eu/eu-1", "a b"))) == frozenset()
    assert Drains.of(draining(seen, Drains((5,), ("/us",))).spec) == Drains((5,), ("/us",))


def test_drained_racks_are_read_once_for_all_brokers(monkeypatch):
    reads = []
    monkeypatch.setattr(racktopology, "split_rack", lambda text: reads.append(text) or split_rack(text))
    where = topology(drainBrokers=[7], drainRacks=["/eu", "us/b"])
    drains, racks = where.spec.drains, (("eu", "a"), ("us", "a"), ("us", "b", "r1"), ("e",), (), None)
    assert [drains(broker, rack) for broker, rack in enumerate(racks)] == [True, False, True, False, False, False]
    assert drains(7, None)
    assert reads == ["/eu", "us/b"]
