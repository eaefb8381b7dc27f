"""The default placer by example: loads, preferences, rejections, speed. tests/property checks its properties."""

import random
import subprocess
import sys
from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from tests.unit.core.clusters import cluster, grid

from rackspan.core.compliance import judge
from rackspan.core.placement import (
    ClusterView,
    InfeasibleError,
    MissingRackError,
    PlacementSpec,
    Spread,
    Unsatisfiable,
    multilevel,
    seed_for,
)
from rackspan.core.placement.engine.allocation.wrap_around import wrap_around
from rackspan.core.placement.engine.balance import leaders as leaders_of
from rackspan.core.placement.multilevel import MultiLevel
from rackspan.core.placement.rings import Rings
from rackspan.core.placement.simple import Simple
from rackspan.core.placement.striped import Striped
from rackspan.core.rack_path import domain_name
from rackspan.core.topology import RackTree


def place(tree, partitions, size, replicas=None, leaders=None, preferred=(), **wishes):
    spec = PlacementSpec(partitions, size, leaders=preferred, **wishes)
    return MultiLevel().place(spec, ClusterView(tree, replicas or {}, leaders or {}))


def held(placement):
    return Counter(broker for row in placement.partitions for broker in row)


def led(placement):
    return Counter(row[0] for row in placement.partitions)


def spread_of(counts, keys):
    values = [counts[key] for key in keys]
    return max(values) - min(values)


def test_large_topic_is_balanced_over_brokers_and_domains_of_every_level():
    tree = grid("region zone rack", 3, 2, 2, 4)
    placement = place(tree, 10_000, 3, seed=1)
    assert judge(tree, placement).compliant
    for counts in (held(placement), led(placement)):
        assert spread_of(counts, range(48)) <= 1
        for level in tree.nodes[1:-1]:
            domains = Counter()
            for broker, count in counts.items():
                domains[int(level.of_broker[tree.positions(broker)])] += count
            assert spread_of(domains, range(len(level))) <= 1


def test_replica_pairs_vary_so_that_many_brokers_take_over_from_a_lost_one():
    tree = grid("zone", 3, 10)
    placement = place(tree, 3000, 3, seed=1)
    pairs = Counter(pair for row in placement.partitions for pair in combinations(sorted(row), 2))
    assert len(pairs) == 300  # every pair over two zones
    heirs = Counter(row[1] for row in placement.partitions if row[0] == 0)
    assert len(heirs) == 20
    assert max(heirs.values()) <= 3 * sum(heirs.values()) / 20


def pairs_met(placement):
    rows = np.sort(placement.matrix, axis=1)
    return len(np.unique(np.concatenate([rows[:, pair] for pair in combinations(range(rows.shape[1]), 2)]), axis=0))


# Mean results of five placements by the StripedReplicaPlacer of Kafka 4.3.1 (benchmarks/placement).
KAFKAS_PAIRS = [
    # racks, brokers in each, replication factor, pairs with 10 partitions per broker, and with 100
    (1, 12, 2, 57.2, 66),
    (1, 12, 3, 65.2, 66),
    (3, 4, 2, 35.4, 48),
    (3, 4, 3, 45.4, 48),
    (4, 3, 2, 49.2, 54),
    (4, 3, 3, 51, 54),
    (1, 100, 2, 912.4, 4298.2),
    (1, 100, 3, 1675.6, 4866.2),
    (10, 10, 2, 476.4, 3020.8),
    (10, 10, 3, 1637, 4453.4),
    (4, 25, 2, 889.8, 3486.2),
    (4, 25, 3, 1568, 3735.8),
]


@pytest.mark.parametrize(("racks", "brokers", "size", "few", "many"), KAFKAS_PAIRS)
def test_at_least_as_many_broker_pairs_share_partitions_as_with_the_placer_of_kafka(racks, brokers, size, few, many):
    tree = grid("rack", racks, brokers)
    for partitions, kafkas in ((10 * len(tree), few), (100 * len(tree), many)):
        met = [pairs_met(place(tree, partitions, size, seed=seed)) for seed in range(20)]
        assert np.mean(met) >= kafkas


@pytest.mark.parametrize("shape", [(2, 2, 3), (3, 2, 2), (2, 3, 4), (3, 3, 1), (2, 2, 2, 2)])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_all_broker_pairs_that_a_fair_split_allows_share_partitions(shape, size):
    tree = grid("a b c"[: 2 * len(shape) - 3], *shape)
    rows = list(combinations(range(len(tree)), size))
    fair = [row for row, broken in zip(rows, judge(tree, rows).broken, strict=True) if not broken]
    possible = {pair for row in fair for pair in combinations(row, 2)}
    assert pairs_met(place(tree, 100 * len(tree), size, seed=1)) == len(possible)


def test_new_topic_prefers_brokers_with_fewer_replicas():
    tree = grid("zone", 3, 2)
    placement = place(tree, 6, 3, replicas={0: 10, 1: 4, 2: 10, 3: 10, 4: 10, 5: 10})
    assert held(placement)[1] == 6
    assert held(placement)[0] == 0
    assert judge(tree, placement).compliant


def test_new_topic_prefers_brokers_with_fewer_leaders_for_its_leaders():
    tree = grid("zone", 3, 1)
    assert led(place(tree, 6, 3, leaders={0: 4, 1: 0, 2: 0})) == {1: 3, 2: 3}


def test_thousand_topics_placed_one_after_another_are_balanced():
    tree = grid("zone", 3, 3)
    replicas, leaders = Counter(), Counter()
    for topic in range(1000):
        placement = place(tree, 6, 3, replicas, leaders, seed=seed_for(f"topic-{topic}"))
        replicas.update(held(placement))
        leaders.update(led(placement))
    assert spread_of(replicas, range(9)) <= 1
    assert spread_of(leaders, range(9)) <= 1


def test_leaders_are_balanced_over_the_brokers_of_the_preferred_domains():
    tree = grid("region zone", 3, 2, 2)  # /00 0..3, /01 4..7, /02 8..11
    placement = place(tree, 24, 3, seed=3)
    assert set(led(placement)) == set(range(12))
    preferred = MultiLevel().place(PlacementSpec(24, 3, leaders=(("00",),)), ClusterView(tree))
    assert led(preferred) == dict.fromkeys(range(4), 6)
    both = MultiLevel().place(PlacementSpec(24, 2, leaders=(("00",), ("01", "10"))), ClusterView(tree))
    assert led(both) == dict.fromkeys(range(6), 4)
    assert judge(tree, both).compliant


def test_leaders_are_balanced_in_a_preferred_domain_of_every_regular_cluster():
    uneven = {}
    for shape in [*product((2, 3, 4), (1, 2, 3, 4, 5)), *product((2, 3), (2, 3), (1, 2, 3))]:
        tree = grid("dc rack" if len(shape) > 2 else "rack", *shape)
        for size in range(1, min(len(tree), 7) + 1):
            for path in {level.paths[0] for level in tree.nodes[1:-1]}:
                for partitions in (7, 12, 600):
                    counts = led(place(tree, partitions, size, preferred=(path,), seed=1))
                    if spread_of(counts, tree.matches(domain_name(path))) > 1:
                        uneven[shape, size, path, partitions] = counts
    assert uneven == {}


def test_earlier_leads_do_not_make_a_topic_with_preferred_leaders_be_placed_again(monkeypatch):
    dealt = []
    monkeypatch.setattr(multilevel, "wrap_around", lambda *quota: dealt.append(quota) or wrap_around(*quota))
    tree, chance = grid("zone", 3, 6), random.Random(1)
    for seed in range(20):
        replicas, leaders = ({broker: chance.randint(20, 40) for broker in range(18)} for _ in range(2))
        placement = place(tree, 6, 3, replicas, leaders, (("00",),), seed=seed)
        room = {broker: held(placement)[broker] for broker in range(6)}
        even = dict(leaders)
        for _ in range(6):  # the next leader goes to the broker with the fewest of those that can lead one more
            broker = min((broker for broker in room if room[broker]), key=even.__getitem__)
            even[broker], room[broker] = even[broker] + 1, room[broker] - 1
        total = [leaders[broker] + led(placement)[broker] for broker in range(6)]
        assert sorted(total) == sorted(even[broker] for broker in range(6))
    assert len(dealt) == 20


def test_preferred_domains_are_looked_up_once_in_a_cluster(monkeypatch):
    found, matches = [], RackTree.matches
    monkeypatch.setattr(RackTree, "matches", lambda tree, path: found.append(path) or matches(tree, path))
    tree, preferred = grid("zone rack", 3, 2, 2), (("00",), ("01", "10"))
    for seed in range(10):
        place(tree, 6, 3, preferred=preferred, seed=seed)
    assert len(found) <= 2 * len(preferred)


def test_domains_that_lead_nothing_take_no_time(monkeypatch):
    asked, gain = [], leaders_of._Shares.gain
    monkeypatch.setattr(leaders_of._Shares, "gain", lambda share, giver: asked.append(giver) or gain(share, giver))
    place(grid("zone rack", 3, 100, 1), 6, 3, leaders={broker: broker % 7 for broker in range(300)})
    assert len(asked) < 100


def test_excluded_drained_and_offline_brokers_get_no_replicas():
    tree = cluster("zone", {b: f"z{b % 3}" for b in range(12)}, drained={0}, offline={1})
    placement = place(tree, 30, 3, exclude=("2", "/z0"))
    assert not {0, 1, 2, 3, 6, 9} & set(held(placement))
    assert set(held(place(tree, 30, 2, include=("/z1", "5")))) == {4, 7, 10, 5}


def test_offline_broker_still_counts_in_the_fair_split():
    tree = cluster("zone", {0: "a", 1: "b", 2: "b", 3: "c"}, offline={1})
    assert judge(tree, place(tree, 6, 3)).compliant


@pytest.mark.parametrize("placer", [Simple(), Striped(), Rings(), MultiLevel()], ids=lambda one: type(one).__name__)
def test_infeasible_error_names_the_cordoned_broker_that_is_needed(placer):
    tree = cluster("zone", {0: "a", 1: "b", 2: "c"}, cordoned={1})
    assert {b for row in placer.place(PlacementSpec(4, 2), ClusterView(tree)).partitions for b in row} == {0, 2}
    with pytest.raises(InfeasibleError, match="3 brokers that are not cordoned, there are 2: bring back or uncordon 1"):
        placer.place(PlacementSpec(4, 3), ClusterView(tree))
    with pytest.raises(InfeasibleError, match=r"not cordoned: remove cordoned.log.dirs from broker 1$"):
        placer.place(PlacementSpec(1, 3, current=((0, 2),)), ClusterView(tree))


def test_infeasible_error_does_not_suggest_to_uncordon_a_drained_broker():
    """The operator cordons the broker during the drain, so uncordoning the broker does not help."""
    tree = cluster("zone", {0: "a", 1: "b", 2: "c", 3: "c"}, drained={1}, cordoned={1}, offline={2})
    with pytest.raises(InfeasibleError, match="3 brokers that are online, there are 2: bring 1 more back"):
        place(tree, 4, 3)


def test_new_topic_is_placed_while_a_whole_zone_is_offline():
    tree = cluster("zone", {0: "a", 1: "a", 2: "b", 3: "b", 4: "c"}, offline={4})
    placement = place(tree, 6, 3)
    assert set(held(placement)) == {0, 1, 2, 3}
    assert judge(tree.without_closed(), placement).compliant
    assert judge(tree, placement).non_compliant == 6


def test_other_domains_lead_while_all_preferred_domains_are_offline():
    tree = cluster("zone", {0: "a", 1: "b", 2: "b", 3: "c", 4: "c"}, offline={0})
    placement = place(tree, 6, 2, preferred=(("a",),))
    assert judge(tree.without_closed(), placement).compliant
    assert set(led(placement)) == {1, 2, 3, 4}
    assert spread_of(led(placement), (1, 2, 3, 4)) <= 1
    grown = place(tree, 8, 2, current=((0, 1), (0, 3)), preferred=(("a",),))
    assert grown.partitions[:2] == ((0, 1), (0, 3)), "existing partitions do not change"
    assert 0 not in {broker for row in grown.partitions[2:] for broker in row}
    assert set(led(place(tree, 6, 2, preferred=(("a",), ("b",))))) == {1, 2}, "an online preferred domain leads"


def test_preferred_domain_without_an_eligible_broker_is_rejected():
    tree = cluster("zone", {0: "a", 1: "b", 2: "c"}, drained={0})
    for domain in ("a", "nowhere"):
        with pytest.raises(InfeasibleError, match=f"no broker that is eligible is in .*/{domain}"):
            place(tree, 3, 2, preferred=((domain,),))


def test_partition_stays_unchanged_while_its_repair_needs_an_offline_broker():
    tree = cluster("zone", {0: "a", 1: "a", 2: "b"}, offline={2})
    assert place(tree, 1, 2, current=((0, 1),)).partitions == ((0, 1),)
    with pytest.raises(InfeasibleError, match="that are online: bring broker 2 back, or drain it if gone for good"):
        place(tree, 1, 2, current=((0,),))


def test_drain_is_suggested_only_if_the_other_brokers_suffice():
    tree = cluster("zone", {0: "a", 1: "b", 2: "c"}, offline={2})
    with pytest.raises(InfeasibleError, match=r"that are online: bring broker 2 back$"):
        place(tree, 1, 3, current=((0, 1),))


def test_infeasible_error_has_separate_remedies_for_offline_and_cordoned_brokers():
    tree = cluster("zone", {0: "a", 1: "a", 2: "b", 3: "b", 4: "b"}, offline={2, 3}, cordoned={4})
    with pytest.raises(
        InfeasibleError,
        match=r"online and not cordoned: bring broker 2, broker 3 back, or drain them if gone for good; "
        r"remove cordoned.log.dirs from broker 4, or drain it",
    ):
        place(tree, 1, 2, current=((0,),))


def test_draining_empties_a_broker_and_moves_nothing_else():
    before = grid("zone", 3, 3)
    placement = place(before, 90, 3, seed=5)
    after = cluster("zone", {b.id: b.rack[0] for b in before.brokers}, drained={4})
    drained = place(after, 90, 3, replicas=held(placement), leaders=led(placement), current=placement.partitions)
    moved = sum(len(set(row) - set(was)) for was, row in zip(placement.partitions, drained.partitions, strict=True))
    assert held(drained)[4] == 0
    assert moved == held(placement)[4] == judge(after, placement).moves
    assert judge(after, drained).compliant
    assert spread_of(held(drained), [3, 5]) <= 1


def test_raising_the_replication_factor_fills_the_brokers_evenly():
    tree = grid("zone", 3, 4)
    two = place(tree, 60, 2, seed=8)
    three = place(tree, 60, 3, replicas=held(two), leaders=led(two), current=two.partitions)
    assert spread_of(held(three), range(12)) <= 1
    assert led(three) == led(two)


def test_unknown_preferred_domains_are_ignored_if_one_preferred_domain_exists():
    tree = cluster("dc", {0: "dc1", 1: "dc1", 2: "dc2"})
    leaders = (("dc1",), ("dc1", "room", "rack"), ("dc3",))
    for some in (leaders, leaders[:1]):
        placed = MultiLevel().place(PlacementSpec(partitions=6, replication_factor=2, leaders=some), ClusterView(tree))
        assert {row[0] for row in placed.partitions} == {0, 1}


@pytest.mark.parametrize(
    ("wishes", "reason", "change"),
    [
        (
            {"replication_factor": 5},
            "replicationFactor 5 needs 5 eligible brokers, there are 4",
            "lower it to 4 or add 1 broker",
        ),
        ({"replication_factor": 0}, "replicationFactor is 0", "raise it to 1"),
        ({"exclude": ("/dc1",), "replication_factor": 2}, "there is 1", "lower it to 1 or add 1 broker"),
        ({"spread": (Spread("dc"),), "replication_factor": 4}, "/dc2 has 1 eligible broker", "add 1 broker in /dc2"),
        ({"spread": (Spread("zone"),)}, 'no level "zone" (levels: dc)', "use one of these levels"),
        ({"include": ("/dc3",)}, '"/dc3" names no broker', "correct or remove it"),
        ({"exclude": ("/\u0378",)}, r'"/\u0378" names no broker', "correct or remove it"),
        ({"leaders": (("dc3",),)}, "preferred for leaders (/dc3)", "prefer a domain that has one"),
        ({"leaders": (("\u0378",),)}, r"preferred for leaders (/\u0378)", "prefer a domain that has one"),
        (
            {"partitions": 1, "current": ((0, 3), (1, 3))},
            "the topic has 2 partitions and 1 is asked for",
            "raise partitions to 2",
        ),
    ],
)
def test_infeasible_spec_is_rejected_with_the_smallest_change(wishes, reason, change):
    tree = cluster("dc", {0: "dc1", 1: "dc1", 2: "dc1", 3: "dc2"})
    spec = PlacementSpec(**({"partitions": 4, "replication_factor": 2} | wishes))
    with pytest.raises(InfeasibleError) as caught:
        MultiLevel().place(spec, ClusterView(tree))
    assert reason in caught.value.reason
    assert change in caught.value.smallest_change


def test_smallest_change_for_an_infeasible_spread_makes_it_feasible():
    wish = (Spread("dc"),)
    grown = cluster("dc", {0: "dc1", 1: "dc1", 2: "dc1", 3: "dc2", 4: "dc2"})
    assert judge(grown, place(grown, 6, 4, spread=wish), wish).compliant


def test_infeasible_spread_suggests_new_brokers_in_the_small_domains():
    tree = cluster("dc", dict(enumerate(["/a"] * 6 + ["/b", "/c"])))
    with pytest.raises(InfeasibleError) as caught:
        place(tree, 2, 8, spread=(Spread("dc"),))
    assert caught.value.smallest_change == (
        "add 2 brokers in /b and 1 in /c, raise maxSkew to 5, or set whenUnsatisfiable: Best"
    )


def test_best_falls_back_to_the_fair_split_if_the_spread_is_infeasible():
    tree = cluster("dc", {0: "dc1", 1: "dc1", 2: "dc1", 3: "dc2"})
    wish = (Spread("dc", 1, Unsatisfiable.BEST),)
    assert judge(tree, place(tree, 6, 4, spread=wish), wish).compliant


def test_missing_racks_are_rejected_with_the_broker_ids_and_can_be_ignored():
    tree = cluster("zone", {0: "a", 1: None, 2: "b", 3: None})
    with pytest.raises(MissingRackError, match="brokers 1, 3") as caught:
        place(tree, 3, 2)
    assert caught.value.brokers == (1, 3)
    assert spread_of(held(place(tree.without_racks(), 4, 2)), range(4)) == 0


def test_partitions_that_the_spread_allows_do_not_change():
    tree = grid("zone", 3, 3)
    current = ((0, 1, 3), (4, 7, 1))
    assert place(tree, 2, 3, current=current, spread=(Spread("zone", 2),)).partitions == current


def test_placement_is_the_same_in_every_process():
    program = (
        "from rackspan.core.placement import *; from rackspan.core.placement.multilevel import MultiLevel;"
        "from rackspan.core.topology import *;"
        "t = RackTree(('zone',), tuple(Broker(b, (f'z{b % 3}',)) for b in range(9)));"
        "print(seed_for('orders'), MultiLevel().place(PlacementSpec(50, 3, seed=seed_for('orders')), ClusterView(t)))"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_seeds_do_not_change_between_releases():
    assert seed_for("orders") == 7_698_470_304_738_852_774


def test_few_leaders_change_after_the_first_choice_with_many_replicas(monkeypatch):
    passed = []
    hand_over = leaders_of._Leaders.hand_over
    monkeypatch.setattr(leaders_of._Leaders, "hand_over", lambda *step: passed.append(step) or hand_over(*step))
    placement = place(grid("rack", 10, 10), 5_000, 30)
    assert set(led(placement).values()) == {50}
    assert len(passed) < 5_000 / 20
