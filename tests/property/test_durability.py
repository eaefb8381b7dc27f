"""What a durability needs, against every fair placement there is."""

from hypothesis import given
from hypothesis import strategies as st
from tests.property import cases, oracle
from tests.property.strategies import LEVELS, sites, sized, trees

from rackspan.core.durability.replication_factor import fullest, nearest_replication_factor


def most_together(tree, size, level, domains):
    """The most replicas that so many domains of a level hold, over all placements."""
    depth = LEVELS.index(level) + 1
    where = sites(tree)
    best = 0
    for chosen in oracle.placements(where, size):
        counts = {}
        for broker in chosen:
            counts[where[broker][:depth]] = counts.get(where[broker][:depth], 0) + 1
        best = max(best, sum(sorted(counts.values(), reverse=True)[:domains]))
    return best


@given(sized(spoiled=True), st.data())
def test_the_fullest_domains_hold_what_the_fullest_of_all_placements_hold(found, data):
    tree, size = found
    level = data.draw(st.sampled_from(tree.levels))
    domains = data.draw(st.integers(0, 4))
    assert fullest(tree, size, level, domains) == most_together(tree, size, level, domains)
    cases.counted()


@given(trees(most=7, spoiled=True), st.integers(1, 7), st.data())
def test_no_nearer_replication_factor_would_do_than_the_one_that_is_named(tree, size, data):
    level = st.sampled_from(tree.levels)
    least = data.draw(st.dictionaries(level, st.integers(1, 3), max_size=2))
    most = data.draw(st.dictionaries(level, st.integers(1, 3), max_size=2))

    def achievable(other):
        needs = [1 + most_together(tree, other, name, domains - 1) for name, domains in least.items()]
        leaves = [other - most_together(tree, other, name, domains) for name, domains in most.items()]
        return max(needs, default=1) <= min(leaves, default=other)

    sizes = [other for other in range(1, tree.capacity + 1) if other != size and achievable(other)]
    wanted = min(sizes, key=lambda other: (abs(other - size), -other), default=None)
    assert nearest_replication_factor(tree, size, least, most) == wanted
    cases.counted()
