"""
A second opinion: every placement there is, judged by the words of the definition.

Nothing here knows the engine, numpy or the rack tree: brokers are pairs of an id and a padded path, placements are
sets, and each question is answered by looking at all possibilities. Meant for up to nine brokers.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

Sites = dict[int, tuple[str, ...]]  # eligible brokers and where they are, all paths of one length


def fair(sites: Sites, chosen: frozenset[int], below: tuple[str, ...] = ()) -> bool:
    """Whether, here and in all domains below, no child holds two or more above another that has a broker free."""
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
    """Every compliant set of brokers."""
    return _placements(tuple(sorted(sites.items())), size)


@lru_cache(maxsize=256)
def _placements(sites: tuple[tuple[int, tuple[str, ...]], ...], size: int) -> tuple[frozenset[int], ...]:
    """Asked for once per partition of a topic: they all have the same ones."""
    where = dict(sites)
    every = map(frozenset, combinations(where, size))
    return tuple(chosen for chosen in every if fair(where, chosen))


def fewest_moves(sites: Sites, current: Iterable[int], size: int) -> int:
    """How many replicas have to be copied at least."""
    return min(len(chosen.difference(current)) for chosen in placements(sites, size))


def evenness(load: Iterable[int]) -> tuple[int, ...]:
    """Order of load vectors: largest first; the smaller one is the more even."""
    return tuple(sorted(load, reverse=True))


def cheapest(sites: Sites, current: Iterable[int], size: int) -> list[frozenset[int]]:
    """Compliant placements of one partition with the fewest moves."""
    copied = {chosen: len(chosen.difference(current)) for chosen in placements(sites, size)}
    least = min(copied.values())
    return [chosen for chosen, moves in copied.items() if moves == least]


def most_even_replicas(options: Iterable[Iterable[frozenset[int]]], load: dict[int, int]) -> tuple[int, ...]:
    """Evenness of the best load that any choice of one option per partition adds up to, on top of what lies there."""
    return min(map(evenness, added_up([dict.fromkeys(choices, 0) for choices in options], load)))


def most_even_leaders(rows: Iterable[tuple[int, ...]], load: dict[int, int]) -> tuple[int, ...]:
    """Evenness of the best choice of leaders, over all choices."""
    return most_even_replicas([[frozenset([leader]) for leader in row] for row in rows], load)


def added_up(options: Iterable[dict[frozenset[int], int]], load: dict[int, int]) -> dict[bytes, int]:
    """Loads, by broker in ascending order, that choices of one option per partition add up to; and their lowest costs.

    An option is a set of brokers, with what it costs. A load is one number while it is added to, a byte per broker:
    there are many.
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


def within(sites: Sites, chosen: frozenset[int], skews: dict[int, int], below: tuple[str, ...] = ()) -> bool:
    """Like `fair`, but children of domains of depth `d` may differ by `skews[d]`."""
    here = {broker: path for broker, path in sites.items() if path[: len(below)] == below}
    if not here or len(next(iter(here.values()))) == len(below):
        return True
    children = {path[len(below)] for path in here.values()}
    room = {child: [b for b, path in here.items() if path[len(below)] == child] for child in children}
    held = {child: len(chosen.intersection(room[child])) for child in children}
    skew = skews.get(len(below), 1)
    if any(held[a] > held[b] + skew and held[b] < len(room[b]) for a in children for b in children):
        return False
    return all(within(sites, chosen, skews, (*below, child)) for child in children)
