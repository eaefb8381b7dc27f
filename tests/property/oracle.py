"""
A second opinion: every placement there is, judged by the words of the definition.

Nothing here knows the engine, numpy or the rack tree: brokers are pairs of an id and a padded path, placements are sets, and
each question is answered by looking at all possibilities. Meant for up to nine brokers.
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


def most_even_replicas(sites: Sites, size: int, count: int, load: dict[int, int]) -> tuple[int, ...]:
    """Evenness of the best total load that `count` compliant placements can reach, what lies there already included."""
    brokers = sorted(sites)
    options = [tuple(int(broker in chosen) for broker in brokers) for chosen in placements(sites, size)]
    reached = {tuple(load.get(broker, 0) for broker in brokers)}
    for _ in range(count):
        reached = {tuple(map(sum, zip(total, option, strict=True))) for total in reached for option in options}
    return min(map(evenness, reached))


def most_even_leaders(rows: list[tuple[int, ...]], load: dict[int, int]) -> tuple[int, ...]:
    """Evenness of the best choice of leaders, over all choices."""

    def total(leaders: tuple[int, ...]) -> tuple[int, ...]:
        return evenness(load[broker] + leaders.count(broker) for broker in load)

    return min(map(total, product(*rows)))
