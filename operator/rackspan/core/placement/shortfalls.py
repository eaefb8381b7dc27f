"""The domains that are too small for a spread, and the smallest change that makes the spread possible.

If the smallest child of a domain is full in a fair split, the other children hold more. The split is within a skew if
the smallest child holds `t` and the largest child at most `t + skew`. So for each `t` the number of missing brokers is
known: first those that grow smaller children to `t`, then those that make room for the remaining replicas. A domain
that has grown may get more replicas, and other domains fewer, so the check is repeated until no broker is missing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rackspan.core.compliance.fair_split import fair_windows
from rackspan.core.placer import Spread, Unsatisfiable
from rackspan.core.rack_path import RackPath, domain_name
from rackspan.core.text import plural
from rackspan.core.topology import Broker, RackTree

_ROUNDS = 32  # of adding brokers and checking again


@dataclass(frozen=True, slots=True)
class DomainShortfall:
    """A domain that cannot spread `held` replicas of one partition over children with these `capacities`.

    `depth` is the level of the children in `tree.nodes`, `children` are their indexes there, `domain` is the index of
    the domain in the level above. `skew` is the skew of the fair split.
    """

    rule: Spread
    depth: int
    domain: int
    held: int
    children: tuple[int, ...]
    capacities: tuple[int, ...]
    skew: int


def shortfalls(tree: RackTree, size: int, spread: Iterable[Spread]) -> list[DomainShortfall]:
    """Return the domains that are too small for a spread of `size` replicas with `Unsatisfiable.REFUSE`.

    Raises TopologyError for an unknown level.
    """
    found = []
    windows = fair_windows(tree, size)
    for rule in spread:
        level, depth = tree.level(rule.level), tree.levels.index(rule.level) + 1
        if rule.when_unsatisfiable is not Unsatisfiable.REFUSE:
            continue
        for domain, held in enumerate(windows.high[depth - 1].tolist()):
            children = np.flatnonzero((level.parent == domain) & (level.capacity > 0))
            capacities = tuple(level.capacity[children].tolist())
            skew = _skew(capacities, held)
            if skew > rule.max_skew:
                found.append(DomainShortfall(rule, depth, domain, held, tuple(children.tolist()), capacities, skew))
    return found


def smallest_change(tree: RackTree, size: int, spread: Iterable[Spread]) -> str:
    """Return text for the user: which brokers, larger skews or `whenUnsatisfiable: Best` make the spread possible."""
    rules = tuple(spread)
    skews: dict[str, int] = {}
    for short in shortfalls(tree, size, rules):
        skews[short.rule.level] = max(short.skew, skews.get(short.rule.level, 0))
    if len(skews) == 1:
        changes = [f"raise maxSkew to {max(skews.values())}", "set whenUnsatisfiable: Best"]
    else:
        levels = _listed([f"{level} to {skew}" for level, skew in skews.items()])
        changes = [f"raise maxSkew of {levels}", f"set whenUnsatisfiable: Best for {_listed(list(skews))}"]
    added = additions(tree, size, rules)
    if added:
        (first, count), *others = added.items()
        places = [f"{plural(count, 'broker')} in {domain_name(first)}"]
        places += [f"{number:,} in {domain_name(path)}" for path, number in others]
        changes.insert(0, f"add {_listed(places)}")
    return f"{', '.join(changes[:-1])}, or {changes[-1]}"


def additions(tree: RackTree, size: int, spread: Iterable[Spread]) -> Mapping[RackPath, int]:
    """Return the number of brokers to add per rack that makes a spread possible; empty if no solution is found."""
    rules, added = tuple(spread), Counter[RackPath]()
    for _ in range(_ROUNDS):
        found = shortfalls(tree, size, rules)
        if not found:
            return added
        highest = min(short.depth for short in found)
        new = Counter[RackPath]()
        for short in found:
            if short.depth == highest:
                for child, count in zip(short.children, _missing(short), strict=True):
                    new.update(_racks(tree, short.depth, child, count))
        first = max(broker.id for broker in tree.brokers) + 1
        brokers = (Broker(first + at, rack) for at, rack in enumerate(new.elements()))
        tree = RackTree(tree.levels, (*tree.brokers, *brokers))
        added.update(new)
    return {}


def _skew(capacities: tuple[int, ...], held: int) -> int:
    """Return the difference between the fullest and the emptiest child in a fair split."""
    split = [0] * len(capacities)
    for _ in range(held):
        free = [at for at, capacity in enumerate(capacities) if split[at] < capacity]
        split[min(free, key=lambda at: (split[at], -capacities[at]))] += 1
    return max(split, default=0) - min(split, default=0)


def _missing(short: DomainShortfall) -> list[int]:
    """Return the number of brokers to add to each child, with the smallest sum."""
    skew = short.rule.max_skew
    ways = []
    for least in range(1, short.held + 1):
        grown = [max(capacity, least) for capacity in short.capacities]
        left = short.held - sum(min(capacity, least + skew) for capacity in grown)
        for child in sorted(range(len(grown)), key=grown.__getitem__):
            more = min(max(least + skew - grown[child], 0), max(left, 0))
            grown[child] += more
            left -= more
        if left <= 0:
            ways.append([more - capacity for more, capacity in zip(grown, short.capacities, strict=True)])
    return min(ways, key=sum)


def _racks(tree: RackTree, depth: int, domain: int, count: int) -> Iterable[RackPath]:
    """Yield racks for `count` more brokers in a domain, always in the smallest domain of each level below."""
    leaves = tree.nodes[-2]
    levels = [nodes.of_broker[leaves.first_broker] for nodes in tree.nodes[depth:-1]]
    sizes = [nodes.capacity.copy() for nodes in tree.nodes[depth:-1]]
    inside = np.flatnonzero((levels[0] == domain) & (leaves.capacity > 0)).tolist()
    for _ in range(count):
        chosen = min(inside, key=lambda leaf: [int(size[of[leaf]]) for of, size in zip(levels, sizes, strict=True)])
        for of, size in zip(levels, sizes, strict=True):
            size[of[chosen]] += 1
        yield tuple(step for step in leaves.paths[chosen] if step)


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
