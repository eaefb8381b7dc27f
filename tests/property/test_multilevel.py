"""Properties of the default placer, compared with the oracle."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from tests.property import oracle
from tests.property.cases import counted
from tests.property.strategies import closed, loads, rows, sites, sized, spreads, topic_rows, trees

from rackspan.core.compliance import judge
from rackspan.core.placement import ClusterView, PlacementSpec, Spread, Unsatisfiable
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.topology import Broker, RackTree

SEEDS = st.integers(0, 2**63 - 1)


def place(tree, partitions, size, seed=0, current=(), replicas=None, leaders=None):
    spec = PlacementSpec(partitions, size, seed=seed, current=tuple(current))
    return MultiLevel().place(spec, ClusterView(tree, replicas or {}, leaders or {})).partitions


def held(placement):
    return Counter(broker for row in placement for broker in row)


def evenness_of(tree, leaders):
    return oracle.evenness(leaders.count(broker.id) for broker in tree.brokers)


def led(placement):
    return Counter(row[0] for row in placement)


@given(sized(spoiled=True), st.integers(1, 12), SEEDS)
def test_every_partition_is_split_fairly_at_every_level_over_different_eligible_brokers(case, partitions, seed):
    tree, size = case
    placement = place(tree, partitions, size, seed)
    assert len(placement) == partitions
    for row in placement:
        assert len(row) == len(set(row)) == size
        assert set(row) <= set(sites(tree))
        assert oracle.fair(sites(tree), frozenset(row))
    counted(partitions)


@given(st.data())
def test_placed_replicas_are_as_even_as_any_placement_allows(data):
    tree, size = data.draw(sized(most=6))
    partitions = data.draw(st.integers(1, 4))
    load = data.draw(loads(tree, data.draw(st.sampled_from([0, 1, 6]))))
    placement = place(tree, partitions, size, data.draw(SEEDS), replicas=load)
    total = held(placement)
    total.update(load)
    best = oracle.most_even_replicas([oracle.placements(sites(tree), size)] * partitions, load)
    assert oracle.evenness(total[broker.id] for broker in tree.brokers) == best
    counted()


@given(st.data())
def test_placed_leaders_are_as_even_as_any_choice_of_leaders_allows(data):
    tree, size = data.draw(sized())
    partitions = data.draw(st.integers(1, 5 if size > 3 else 6))
    load = data.draw(loads(tree, data.draw(st.sampled_from([0, 1, 6]))))
    placement = place(tree, partitions, size, data.draw(SEEDS), leaders=load)
    total = led(placement)
    total.update(load)
    assert oracle.evenness(total[broker] for broker in load) == oracle.most_even_leaders(list(placement), load)
    counted()


@given(st.data())
def test_repair_moves_as_few_replicas_as_any_compliant_placement_allows(data):
    tree, size = data.draw(sized(spoiled=True))
    before = min(len(tree.brokers), data.draw(st.integers(1, 6)))
    current = data.draw(rows(tree, before, data.draw(st.integers(1, 4))))
    placement = place(tree, len(current), size, data.draw(SEEDS), current, replicas=held(current), leaders=led(current))
    for was, row in zip(current, placement, strict=True):
        assert oracle.fair(sites(tree), frozenset(row))
        assert len(set(row)) == size
        assert len(set(row).difference(was)) == oracle.fewest_moves(sites(tree), was, size)
        counted()


@given(st.data())
def test_judge_agrees_with_the_oracle_on_compliance_and_moves(data):
    tree, size = data.draw(sized(spoiled=True))
    current = data.draw(rows(tree, size, data.draw(st.integers(1, 6))))
    assessment = judge(tree, current)
    fair = [set(row) <= set(sites(tree)) and oracle.fair(sites(tree), frozenset(row)) for row in current]
    moves = [oracle.fewest_moves(sites(tree), row, size) for row in current]
    assert (~assessment.broken).tolist() == fair
    assert assessment.moves_of.tolist() == moves
    assert {finding.partition for finding in assessment.findings} == {at for at, good in enumerate(fair) if not good}
    counted(len(current))


@given(st.data())
def test_assessment_holds_for_every_possible_rack_of_a_broker_without_a_rack(data):
    tree, size = data.draw(sized(spoiled=True))
    current = data.draw(rows(tree, size, data.draw(st.integers(1, 6))))
    lost = Broker(len(tree.brokers))
    assessment = judge(RackTree(tree.levels, (*tree.brokers, lost)), current)
    racks = {broker.rack for broker in tree.brokers if broker.eligible}
    wholes = [RackTree(tree.levels, (*tree.brokers, replace(lost, rack=rack))) for rack in racks]
    fair = [
        {held <= set(sites(one)) and oracle.fair(sites(one), held) for one in wholes}
        for held in map(frozenset, current)
    ]
    for at, found in enumerate(fair):
        if assessment.unknown[at]:
            assert False in found
        else:
            assert found == {not assessment.broken[at]}
    counted(len(current))


@given(st.data())
def test_changed_replication_factor_of_a_compliant_topic_moves_no_remaining_replica(data):
    tree, size = data.draw(sized())
    after = data.draw(st.integers(1, tree.capacity))
    before = place(tree, data.draw(st.integers(1, 5)), size, data.draw(SEEDS))
    placement = place(tree, len(before), after, 1, before, replicas=held(before), leaders=led(before))
    for was, row in zip(before, placement, strict=True):
        assert set(row) <= set(was) or set(was) <= set(row)
        if was[0] in row:
            assert row[0] == was[0]
    counted(len(before))


@given(st.data())
def test_adding_partitions_does_not_change_existing_ones(data):
    tree, size = data.draw(sized())
    before = place(tree, data.draw(st.integers(1, 5)), size, data.draw(SEEDS))
    more = data.draw(st.integers(0, 5))
    placement = place(tree, len(before) + more, size, 1, before, replicas=held(before), leaders=led(before))
    assert placement[: len(before)] == before
    assert judge(tree, placement).compliant
    counted(len(placement))


@given(st.data())
def test_second_placement_changes_nothing(data):
    tree, size = data.draw(sized(spoiled=True))
    current = data.draw(rows(tree, size, data.draw(st.integers(0, 4))))
    first = place(tree, len(current) + 2, size, data.draw(SEEDS), current, replicas=held(current), leaders=led(current))
    again = place(tree, len(first), size, data.draw(SEEDS), first, replicas=held(first), leaders=led(first))
    assert again == first
    counted()


@given(sized(spoiled=True), SEEDS, st.randoms(use_true_random=False))
def test_placement_does_not_depend_on_the_order_of_brokers(case, seed, random):
    tree, size = case
    brokers = list(tree.brokers)
    random.shuffle(brokers)
    shuffled = RackTree(tree.levels, tuple(brokers))
    assert shuffled == tree
    assert place(shuffled, 5, size, seed) == place(tree, 5, size, seed)
    counted()


@given(st.data())
def test_preferred_domains_lead_every_partition_evenly_and_the_split_stays_fair(data):
    """Also while some brokers are offline or cordoned, which lead nothing new."""
    tree, size = data.draw(sized())
    tree, shut = data.draw(closed(tree, most=data.draw(st.sampled_from([0, 2]))))
    racks = st.sampled_from([broker.rack for broker in tree.brokers])
    path = st.tuples(racks, st.integers(1, len(tree.levels))).map(lambda drawn: drawn[0][: drawn[1]])
    paths = data.draw(st.sets(path, min_size=1, max_size=3))
    spec = PlacementSpec(data.draw(st.integers(1, 6)), size, seed=data.draw(SEEDS), leaders=tuple(paths))
    inside = {broker for path in paths for broker in tree.matches("/" + "/".join(path))} - shut
    usable = _usable(tree, shut, size)
    if not usable:
        return
    placement = MultiLevel().place(spec, ClusterView(tree)).partitions
    choices = [tuple(broker for broker in row if broker in inside) or row for row in placement]
    for row, able in zip(placement, choices, strict=True):
        assert set(row) in usable
        assert row[0] in able
        assert inside.intersection(row) or not any(inside & chosen for chosen in usable)
    load = {broker.id: 0 for broker in tree.brokers}
    assert oracle.evenness(led(placement)[broker] for broker in load) == oracle.most_even_leaders(choices, load)
    counted(len(placement))


def _usable(tree, shut, size):
    """Return the placements on open brokers that are fair over all brokers, else those fair over the open ones."""
    here = sites(tree)
    left = {broker: path for broker, path in here.items() if broker not in shut}
    return [chosen for chosen in oracle.placements(here, size) if not chosen & shut] or oracle.placements(left, size)


@given(st.data())
def test_repaired_replicas_are_as_even_as_the_fewest_moves_allow(data):
    tree, size = data.draw(sized(most=6, spoiled=True))
    before = min(len(tree.brokers), data.draw(st.integers(1, 4)))
    current = data.draw(rows(tree, before, data.draw(st.integers(1, 4))))
    placement = place(tree, len(current), size, data.draw(SEEDS), current, replicas=held(current), leaders=led(current))
    here = sites(tree)
    kept = [len(was) == size and set(was) <= set(here) and oracle.fair(here, frozenset(was)) for was in current]
    options = [
        [frozenset(was)] if stays else oracle.cheapest(here, was, size)
        for was, stays in zip(current, kept, strict=True)
    ]
    total = held(placement)
    best = oracle.most_even_replicas(options, dict.fromkeys(here, 0))
    assert oracle.evenness(total[broker] for broker in here) == best
    counted()


@given(st.data())
def test_partitions_are_judged_by_any_spread(data):
    """Also with unknown, drained, offline and cordoned brokers, rows of any size, and another replication factor."""
    tree = data.draw(trees(most=7, spoiled=True))
    tree, _ = data.draw(closed(tree, most=2))
    spread, *rules = data.draw(spreads(tree))
    current = data.draw(topic_rows([*(broker.id for broker in tree.brokers), 90], min(len(tree), 5)))
    asked = data.draw(st.none() | st.integers(1, 5))
    assessment = judge(tree, current, spread, asked)
    here, shut = sites(tree), {broker.id for broker in tree.brokers if not broker.open}
    for at, row in enumerate(current):
        broken = not (set(row) <= set(here) and oracle.within(here, frozenset(row), *rules))
        allowed = oracle.placements_within(here, asked or len(row), *rules)
        assert assessment.broken[at] == broken
        assert assessment.unsatisfiable[at] == (broken and not allowed)
        wrong = broken or asked not in (None, len(row))
        loosened = any(skew > 1 for skew in rules[0].values())  # then closed brokers do not count
        usable = [good for good in allowed if loosened or not shut & (good - set(row))]
        if usable or not allowed:
            assert assessment.moves_of[at] == min((len(good - set(row)) for good in usable if wrong), default=0)
    counted(len(current))


@given(st.data())
def test_offline_or_cordoned_brokers_get_no_replicas_and_the_split_is_fair_if_possible(data):
    tree, size = data.draw(sized())
    tree, offline = data.draw(closed(tree))
    online = {broker: path for broker, path in sites(tree).items() if broker not in offline}
    if len(online) < size:
        return
    placement = place(tree, 4, size, data.draw(SEEDS))
    possible = any(chosen.isdisjoint(offline) for chosen in oracle.placements(sites(tree), size))
    for row in placement:
        assert not set(row) & offline
        assert oracle.fair(sites(tree) if possible else online, frozenset(row))
        counted()


@given(st.data())
def test_repair_under_a_loosened_spread_moves_as_few_replicas_as_that_spread_allows(data):
    tree, size = data.draw(sized(spoiled=True))
    level = data.draw(st.integers(0, len(tree.levels) - 1))
    skew = data.draw(st.integers(2, 3))
    before = min(len(tree.brokers), data.draw(st.integers(1, 6)))
    current = data.draw(rows(tree, before, data.draw(st.integers(1, 4))))
    spread = (Spread(tree.levels[level], skew, Unsatisfiable.BEST),)
    spec = PlacementSpec(len(current), size, spread=spread, seed=data.draw(SEEDS), current=current)
    placement = MultiLevel().place(spec, ClusterView(tree, held(current), led(current))).partitions
    here = sites(tree)
    allowed = [
        frozenset(chosen)
        for chosen in combinations(sorted(here), size)
        if oracle.within(here, frozenset(chosen), {level: skew})
    ]
    assert judge(tree, placement, spread).compliant
    for was, row in zip(current, placement, strict=True):
        assert len(set(row)) == size
        assert len(set(row).difference(was)) == min(len(good.difference(was)) for good in allowed)
    counted(len(current))
