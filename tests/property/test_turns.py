"""Places for topologies that have replicas to move: every namespace gets an equal share."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rackspan.api.meta import ObjectKey
from rackspan.reconcile.plans.turns import Contender, in_turn

contenders = st.dictionaries(
    st.builds(ObjectKey, st.sampled_from(["a", "b", "c", "d"]), st.sampled_from("pqrstuvw")),
    st.tuples(st.floats(0, 100), st.booleans()),
).map(lambda found: [Contender(key, since, rests) for key, (since, rests) in found.items()])


@given(contenders, st.integers(0, 12))
def test_places_are_shared_evenly_by_namespaces_and_the_longest_waiting_come_first(found, places):
    placed = in_turn(found, places)
    assert len(placed) == len(set(placed)) == min(places, len(found))
    busy = [one for one in found if not one.rests]
    left = [one for one in busy if one.key not in placed]
    given_to = Counter(one.key.namespace for one in busy if one.key in placed)
    for one in left:
        own = given_to[one.key.namespace]
        assert all(count <= own + 1 for count in given_to.values())
        mates = [two for two in busy if two.key.namespace == one.key.namespace and two.key in placed]
        assert all(two.since <= one.since for two in mates)
    if left:
        assert not any(one.rests for one in found if one.key in placed)


@given(contenders, st.integers(1, 4))
def test_every_waiting_topology_gets_a_turn(found, places):
    """After each turn, the topologies that had a place go to the end of the queue."""
    busy = {one.key: one.since for one in found if not one.rests}
    waiting, now = set(busy), 100.0
    for _ in range(len(busy)):
        now += 1
        placed = in_turn([Contender(key, since, rests=False) for key, since in busy.items()], places)
        waiting.difference_update(placed)
        busy |= dict.fromkeys(placed, now)
    assert not waiting
