"""Random clusters small enough for the oracle: up to nine brokers, up to three levels, uneven and of unequal depth."""

from dataclasses import replace

from hypothesis import strategies as st

from rackspan.core.placer import Spread, Unsatisfiable
from rackspan.core.topology import Broker, RackTree

LEVELS = ("region", "zone", "rack")


@st.composite
def trees(draw, *, least=1, most=9, spoiled=False):
    """Draw rack trees. With `spoiled`, they also have brokers that are not eligible."""
    depth = draw(st.integers(1, 3))
    step = st.sampled_from(["a", "b", "c"])
    paths = draw(st.lists(st.lists(step, min_size=1, max_size=depth).map(tuple), min_size=least, max_size=most))
    ids = draw(st.permutations(range(len(paths))))
    brokers = [Broker(broker, path) for broker, path in zip(ids, paths, strict=True)]
    if spoiled:
        flags = draw(st.lists(st.booleans(), min_size=len(brokers), max_size=len(brokers)))
        brokers = [
            replace(b, eligible=flag or at == 0) for at, (b, flag) in enumerate(zip(brokers, flags, strict=True))
        ]
    return RackTree(LEVELS[:depth], tuple(brokers))


@st.composite
def closed(draw, tree, most=9):
    """Draw the same tree with some brokers that are offline, cordoned or both, and the ids of these brokers."""
    states = st.tuples(st.booleans(), st.booleans()).filter(lambda state: state != (True, False))  # online, cordoned
    shut = draw(st.dictionaries(st.sampled_from([broker.id for broker in tree.brokers]), states, max_size=most))
    brokers = [replace(b, online=shut[b.id][0], cordoned=shut[b.id][1]) if b.id in shut else b for b in tree.brokers]
    return RackTree(tree.levels, tuple(brokers)), set(shut)


def sites(tree):
    """Return the tree as the oracle represents it."""
    depth = len(tree.levels)
    return {b.id: (b.rack or ()) + ("",) * (depth - len(b.rack or ())) for b in tree.brokers if b.eligible}


@st.composite
def spreads(draw, tree):
    """Draw spreads of some levels, and their skews and which are strict, by depth as the oracle has them."""
    rules = st.tuples(st.sampled_from([1, 1, 2, 3]), st.booleans())
    drawn = draw(st.dictionaries(st.integers(0, len(tree.levels) - 1), rules, min_size=draw(st.integers(0, 1))))
    kinds = {True: Unsatisfiable.REFUSE, False: Unsatisfiable.BEST}
    made = tuple(Spread(tree.levels[depth], skew, kinds[strict]) for depth, (skew, strict) in drawn.items())
    return made, {depth: skew for depth, (skew, _) in drawn.items()}, {d for d, (_, strict) in drawn.items() if strict}


@st.composite
def sized(draw, **options):
    """Draw a tree and a replication factor that is feasible in it."""
    tree = draw(trees(**options))
    return tree, draw(st.integers(1, min(tree.capacity, 6)))


def rows(tree, size, count):
    """Return a strategy of replica lists of one length, fair or not."""
    ids = [broker.id for broker in tree.brokers]
    row = st.permutations(ids).map(lambda order: tuple(order[:size]))
    return st.lists(row, min_size=count, max_size=count).map(tuple)


def loads(tree, most):
    return st.fixed_dictionaries({broker.id: st.integers(0, most) for broker in tree.brokers})


@st.composite
def topic_rows(draw, ids, most, partitions=3):
    """Draw the replica lists of a topic, of one length or, as after a cancelled reassignment, of two lengths."""
    size = draw(st.integers(1, most))
    other = size if draw(st.integers(0, 3)) else draw(st.integers(1, most))
    row = st.tuples(st.permutations(ids), st.sampled_from([size, other])).map(lambda one: tuple(one[0][: one[1]]))
    return tuple(draw(st.lists(row, min_size=1, max_size=partitions)))
