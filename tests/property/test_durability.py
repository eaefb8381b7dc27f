"""Requirements of a durability, compared with every fair placement."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.property import cases, oracle
from tests.property.strategies import LEVELS, sites, sized, trees

from rackspan.core.durability import Durability, insync_bounds
from rackspan.core.durability.replication_factor import fullest, nearest_replication_factor


def most_together(tree, size, level, domains):
    """Return the most replicas that this number of domains of a level holds, over all placements."""
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
def test_fullest_equals_the_maximum_over_all_placements(found, data):
    tree, size = found
    level = data.draw(st.sampled_from(tree.levels))
    domains = data.draw(st.integers(0, 4))
    assert fullest(tree, size, level, domains) == most_together(tree, size, level, domains)
    cases.counted()


@given(trees(most=7, spoiled=True), st.integers(1, 7), st.data())
def test_nearest_replication_factor_is_the_nearest_achievable_one(tree, size, data):
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


@given(trees(most=7, spoiled=True), st.data())
def test_insync_bounds_match_a_count_domain_by_domain(tree, data):
    """Rows of any length, on known and unknown brokers, some of which are listed twice."""
    number = st.integers(0, max(broker.id for broker in tree.brokers) + 1)
    rows = data.draw(st.lists(st.lists(number, max_size=5), min_size=1, max_size=4))
    level = st.sampled_from(tree.levels)
    least = data.draw(st.dictionaries(level, st.integers(1, 4), max_size=2))
    most = data.draw(st.dictionaries(level, st.integers(1, 4), max_size=2))
    width = max(map(len, rows))
    padded = np.array([[*row, *[-1] * (width - len(row))] for row in rows], dtype=np.int64).reshape(len(rows), width)
    found = insync_bounds(tree, padded, Durability(least, most))

    def held(row, name):
        depth = LEVELS.index(name) + 1
        paths = {b.id: (b.rack + ("",) * len(LEVELS))[:depth] for b in tree.brokers}
        return sorted(Counter(paths[broker] for broker in row if broker in paths).values(), reverse=True)

    def needs(row, name, domains):
        counts = held(row, name)
        unknown = len(row) - sum(counts)
        apart = sum(counts[: domains - 1]) + (unknown if domains > 1 else 0)
        return 1 + (apart if len(counts) >= domains else len(row))

    for at, row in enumerate(rows):
        assert found[0][at] == max((needs(row, name, domains) for name, domains in least.items()), default=1)
        leaves = [sum(held(row, name)[domains:]) for name, domains in most.items()]
        assert found[1][at] == min(leaves, default=len(row))
    cases.counted()
