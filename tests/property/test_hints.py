"""Suggested changes help: each change that an error suggests is applied, and the request is repeated."""

import re
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.property.cases import counted
from tests.property.strategies import LEVELS, closed, topic_rows, trees

from rackspan.core.durability import Durability, DurabilityError, min_insync
from rackspan.core.placement import ClusterView, InfeasibleError, PlacementSpec
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.placer import Spread, Unsatisfiable
from rackspan.core.rack_path import parse_rack
from rackspan.core.topology import Broker, RackTree


def refusal(tree, spec):
    """Return the error of a request, or None."""
    try:
        MultiLevel().place(spec, ClusterView(tree))
    except InfeasibleError as error:
        return error
    return None


def helped(tree, spec, change):
    """Return the request after one of the suggested changes."""
    if found := re.fullmatch(r"lower it to (\d+)", change):
        return tree, replace(spec, replication_factor=int(found[1]))
    if found := re.fullmatch(r"drain (\d+) fewer", change):
        return "drain", int(found[1])
    if found := re.fullmatch(r"add (\d+) brokers?( that include and exclude leave)?", change):
        return grown(tree, [None if tree.brokers[0].rack is None else tree.brokers[0].rack] * int(found[1])), spec
    if change.startswith("add "):
        places = re.findall(r"(\d+)(?: brokers?)? in (/\S+)", change.replace(",", " "))
        return grown(tree, [parse_rack(path) for count, path in places for _ in range(int(count))]), spec
    if found := re.fullmatch(r"raise maxSkew to (\d+)", change):
        skews = {refused_level(tree, spec): int(found[1])}
    elif change.startswith("raise maxSkew of "):
        skews = {level: int(skew) for level, skew in re.findall(r"(\w+) to (\d+)", change)}
    else:
        levels = re.fullmatch(r"set whenUnsatisfiable: Best(?: for (.*))?", change)[1]
        named = re.findall("region|zone|rack", levels) if levels else [refused_level(tree, spec)]
        return tree, respread(spec, {level: {"when_unsatisfiable": Unsatisfiable.BEST} for level in named})
    return tree, respread(spec, {level: {"max_skew": skew} for level, skew in skews.items()})


def respread(spec, changes):
    return replace(spec, spread=tuple(replace(wish, **changes.get(wish.level, {})) for wish in spec.spread))


def refused_level(tree, spec):
    return re.search(r"over level (\w+) with", refusal(tree, spec).reason)[1]


def grown(tree, racks):
    first = max(broker.id for broker in tree.brokers) + 1
    return RackTree(tree.levels, (*tree.brokers, *(Broker(first + at, rack) for at, rack in enumerate(racks))))


@st.composite
def lopsided(draw):
    """Draw trees whose domains differ much in their number of brokers."""
    depth = draw(st.integers(1, 3))
    path = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=depth).map(tuple)
    racks = draw(st.dictionaries(path, st.sampled_from([1, 1, 2, 6]), min_size=2, max_size=5))
    paths = [rack for rack, count in racks.items() for _ in range(count)]
    drained = draw(st.sets(st.integers(1, len(paths) - 1), max_size=2))
    brokers = (Broker(at, rack, eligible=at not in drained) for at, rack in enumerate(paths))
    return RackTree(LEVELS[:depth], tuple(brokers))


@given(st.data())
def test_every_suggested_change_makes_the_spread_feasible(data):
    tree = data.draw(lopsided())
    size = data.draw(st.integers(min(4, tree.capacity), tree.capacity))
    levels = data.draw(st.lists(st.sampled_from(tree.levels), min_size=1, unique=True))
    spec = PlacementSpec(2, size, spread=tuple(Spread(level, data.draw(st.integers(1, 2))) for level in levels))
    error = refusal(tree, spec)
    if error is None:
        return
    changes = re.split(r", (?=raise|set|or )", error.smallest_change)
    assert len(changes) == 3
    for change in changes:
        assert refusal(*helped(tree, spec, change.removeprefix("or "))) is None, change
    counted(len(changes))


@given(st.data())
def test_every_suggested_change_makes_room_for_the_replicas(data):
    tree = data.draw(trees(most=6, spoiled=True))
    ids = [str(broker.id) for broker in tree.brokers]
    exclude = tuple(sorted(data.draw(st.sets(st.sampled_from(ids), max_size=len(ids) - 1))))
    spec = PlacementSpec(2, data.draw(st.integers(tree.capacity, 8)), exclude=exclude)
    error = refusal(tree, spec)
    assume(error is not None)
    for change in re.split(r", | or ", error.smallest_change):
        made, number = helped(tree, spec, change)
        if made != "drain":
            assert refusal(made, number) is None, change
            continue
        drained = [broker.id for broker in tree.brokers if not broker.eligible and str(broker.id) not in exclude]
        back = drained[:number]
        assert len(back) == number, change
        brokers = tuple(replace(broker, eligible=broker.eligible or broker.id in back) for broker in tree.brokers)
        assert refusal(RackTree(tree.levels, brokers), spec) is None, change
    counted()


@given(st.data())
def test_suggested_number_of_returning_brokers_is_enough(data):
    tree = data.draw(trees(most=6, spoiled=True))
    tree, _ = data.draw(closed(tree))
    spec = PlacementSpec(2, data.draw(st.integers(1, tree.capacity)))
    error = refusal(tree, spec)
    if error is None:
        return
    number = int(re.fullmatch(r"bring (?:back or uncordon )?(\d+) more(?: back)?", error.smallest_change)[1])
    shut = [broker.id for broker in tree.brokers if broker.eligible and not broker.open]
    back = data.draw(st.permutations(shut))[:number]
    brokers = (replace(b, online=True, cordoned=False) if b.id in back else b for b in tree.brokers)
    assert refusal(RackTree(tree.levels, tuple(brokers)), spec) is None
    counted()


@given(st.data())
def test_partition_is_repaired_once_closed_brokers_are_opened_or_where_suggested_drained(data):
    tree, _ = data.draw(closed(data.draw(trees(least=3))))
    current = data.draw(topic_rows([broker.id for broker in tree.brokers], min(len(tree), 2), partitions=1))
    spec = PlacementSpec(1, data.draw(st.integers(max(1, tree.capacity - 2), tree.capacity)), current=current)
    error = refusal(tree, spec)
    if error is None:
        return
    opened, drained = (
        tuple(replace(b, **change) if not b.open else b for b in tree.brokers)
        for change in ({"online": True, "cordoned": False}, {"eligible": False})
    )
    assert refusal(RackTree(tree.levels, opened), spec) is None
    assert ("drain" in error.smallest_change) == (refusal(RackTree(tree.levels, drained), spec) is None)
    counted()


@given(st.data())
def test_every_suggested_change_resolves_the_durability_error(data):
    tree = data.draw(trees(most=7))
    size = data.draw(st.integers(1, len(tree)))
    wish = st.dictionaries(st.sampled_from(tree.levels), st.integers(1, 3), max_size=2)
    wishes, given_value = Durability(data.draw(wish), data.draw(wish)), data.draw(st.none() | st.integers(1, 4))
    error = contradiction(tree, size, wishes, given_value)
    assume(error is not None)
    for change in error.smallest_change.split(", or "):
        if found := re.fullmatch(r"(raise|lower) replicationFactor to (\d+)", change):
            assert contradiction(tree, int(found[2]), wishes, None) is None
        elif change == "lower one of the two":
            assert all(one in error.reason for one in ("minDomains", "tolerate"))
        elif error.reason.startswith("min.insync.replicas"):
            assert contradiction(tree, size, wishes, int(re.fullmatch(r"(raise|lower) it to (\d+)", change)[2])) is None
        else:
            kind, level = re.match(r"(minDomains|tolerate) (\w+):", error.reason).groups()
            kept = dict(wishes.min_domains if kind == "minDomains" else wishes.tolerate)
            del kept[level]
            if change != "remove it":
                kept[level] = int(re.fullmatch(r"lower it to (\d+)", change)[1])
            lowered = Durability(kept, {}) if kind == "minDomains" else Durability({}, kept)
            again = contradiction(tree, size, lowered, None)
            assert again is None or not again.reason.startswith(f"{kind} {level}:")
    counted()


def contradiction(tree, size, wishes, value):
    """Return the durability error for a topic with this replication factor, or None."""
    try:
        min_insync(tree, MultiLevel().place(PlacementSpec(3, size), ClusterView(tree)), wishes, value)
    except DurabilityError as error:
        return error
    return None
