"""An oracle for placements: a search over every possible placement, judged by the definition.

It uses neither the engine nor numpy nor the rack tree. Brokers are pairs of an id and a padded path, placements are
sets, and each answer comes from all possibilities. It is meant for up to nine brokers.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import combinations

Sites = dict[int, tuple[str, ...]]  # eligible brokers and where they are, all paths of one length


def fair(sites: Sites, chosen: frozenset[int], below: tuple[str, ...] = ()) -> bool:
    """Return whether, here and in all domains below, no child holds two or more above another with a free broker."""
    here = {broker: path for broker, path in sites.items() if path[: len(below)] == below}
    if not here or len(next(iter(here.values()))) == len(below):
        return True
    children = {path[len(below)] for path in here.values()}
    room = {child: [b for b, path in here.items() if path[len(below)] == child] for child in children}
    held = {child: len(chosen.intersection(room[child])) for child in children}
    if any(held[a] >= held[b] + 2 and held[b] < len(room[b]) for a in children for b in children):
        return False
    return all(fair(sites, chosen, (*below, child)) for child in children)


def placements(sites: Sites, size: int) -> tuple[frozenset[int], ...]:
    """Return every compliant set of brokers."""
    return _placements(tuple(sorted(sites.items())), size)


@lru_cache(maxsize=256)
def _placements(sites: tuple[tuple[int, tuple[str, ...]], ...], size: int) -> tuple[frozenset[int], ...]:
    """Return the placements from a cache, because all partitions of a topic have the same ones."""
    where = dict(sites)
    every = map(frozenset, combinations(where, size))
    return tuple(chosen for chosen in every if fair(where, chosen))


def fewest_moves(sites: Sites, current: Iterable[int], size: int) -> int:
    """Return how many replicas must be copied at least."""
    return min(len(chosen.difference(current)) for chosen in placements(sites, size))


def evenness(load: Iterable[int]) -> tuple[int, ...]:
    """Return the sort key of a load vector, largest value first. The smaller key is the more even load."""
    return tuple(sorted(load, reverse=True))


def cheapest(sites: Sites, current: Iterable[int], size: int) -> list[frozenset[int]]:
    """Return the compliant placements of one partition with the fewest moves."""
    copied = {chosen: len(chosen.difference(current)) for chosen in placements(sites, size)}
    least = min(copied.values())
    return [chosen for chosen, moves in copied.items() if moves == least]


def most_even_replicas(options: Iterable[Iterable[frozenset[int]]], load: dict[int, int]) -> tuple[int, ...]:
    """Return the evenness of the best sum of `load` and one option per partition."""
    return min(map(evenness, added_up([dict.fromkeys(choices, 0) for choices in options], load)))


def most_even_leaders(rows: Iterable[tuple[int, ...]], load: dict[int, int]) -> tuple[int, ...]:
    """Return the evenness of the best choice of leaders, over all choices."""
    return most_even_replicas([[frozenset([leader]) for leader in row] for row in rows], load)


def added_up(options: Iterable[dict[frozenset[int], int]], load: dict[int, int]) -> dict[bytes, int]:
    """Return all sums of `load` and one option per partition, by broker in ascending order, with their lowest costs.

    An option is a set of brokers with its cost. While it is summed, a load is one number with a byte per broker,
    because there are many loads.
    """
    place = {broker: 1 << 8 * at for at, broker in enumerate(sorted(load))}
    reached = {sum(held * place[broker] for broker, held in load.items()): 0}
    for added, choices in enumerate(options, 1):
        assert max(load.values()) + added < 256
        ones = [(sum(place.get(broker, 0) for broker in chosen), cost) for chosen, cost in choices.items()]
        further: dict[int, int] = {}
        for total, spent in reached.items():
            for one, cost in ones:
                now, costs = total + one, spent + cost
                if further.get(now, costs) >= costs:
                    further[now] = costs
        reached = further
    return {total.to_bytes(len(place), "little"): spent for total, spent in reached.items()}


def within(
    sites: Sites,
    chosen: frozenset[int],
    skews: dict[int, int],
    strict: Collection[int] = (),
    below: tuple[str, ...] = (),
) -> bool:
    """Like `fair`, but children of domains of depth `d` may differ by `skews[d]`, and in `strict` depths never by more.

    In other depths a child may hold fewer if all of its brokers hold a replica.
    """
    here = {broker: path for broker, path in sites.items() if path[: len(below)] == below}
    if not here or len(next(iter(here.values()))) == len(below):
        return True
    children = {path[len(below)] for path in here.values()}
    room = {child: [b for b, path in here.items() if path[len(below)] == child] for child in children}
    held = {child: len(chosen.intersection(room[child])) for child in children}
    skew, full_counts = skews.get(len(below), 1), len(below) in strict
    if any(held[a] > held[b] + skew and (full_counts or held[b] < len(room[b])) for a in children for b in children):
        return False
    return all(within(sites, chosen, skews, strict, (*below, child)) for child in children)


def placements_within(sites: Sites, size: int, skews: dict[int, int], strict: Collection[int]) -> list[frozenset[int]]:
    """Return every set of brokers that is `within` the skews."""
    return [chosen for chosen in map(frozenset, combinations(sites, size)) if within(sites, chosen, skews, strict)]
