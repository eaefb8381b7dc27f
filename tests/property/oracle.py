"""
A second opinion: every placement there is, judged by the words of the definition.

Nothing here knows the engine, numpy or the rack tree: brokers are pairs of an id and a padded path, placements are
sets, and each question is answered by looking at all possibilities. Meant for up to nine brokers.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations, product

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


def placements(sites: Sites, size: int) -> Iterator[frozenset[int]]:
    """Every compliant set of brokers."""
    for chosen in combinations(sorted(sites), size):
        if fair(sites, frozenset(chosen)):
            yield frozenset(chosen)


def fewest_moves(sites: Sites, current: Iterable[int], size: int) -> int:
    """How many replicas have to be copied at least."""
    return min(len(chosen.difference(current)) for chosen in placements(sites, size))


def evenness(load: Iterable[int]) -> tuple[int, ...]:
    """Order of load vectors: largest first; the smaller one is the more even."""
    return tuple(sorted(load, reverse=True))


def cheapest(sites: Sites, current: Iterable[int], size: int) -> list[frozenset[int]]:
    """Compliant placements of one partition with the fewest moves."""
    options = list(placements(sites, size))
    least = min(len(chosen.difference(current)) for chosen in options)
    return [chosen for chosen in options if len(chosen.difference(current)) == least]


def most_even_replicas(options: Iterable[Iterable[frozenset[int]]], load: dict[int, int]) -> tuple[int, ...]:
    """Evenness of the best load that any choice of one option per partition adds up to, on top of what lies there."""
    brokers = sorted(load)
    reached = {tuple(load[broker] for broker in brokers)}
    for choices in options:
        ones = {tuple(int(broker in chosen) for broker in brokers) for chosen in choices}
        reached = {tuple(map(sum, zip(total, one, strict=True))) for total in reached for one in ones}
    return min(map(evenness, reached))


def most_even_leaders(rows: list[tuple[int, ...]], load: dict[int, int]) -> tuple[int, ...]:
    """Evenness of the best choice of leaders, over all choices."""

    def total(leaders: tuple[int, ...]) -> tuple[int, ...]:
        return evenness(load[broker] + leaders.count(broker) for broker in load)

    return min(map(total, product(*rows)))


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
