"""Checking a request before placing: what can be refused with a sentence is refused here, for all placers alike."""

from rackspan.core.fairness import fair_windows
from rackspan.core.placement.model import InfeasibleError, MissingRackError, PlacementSpec, Unsatisfiable
from rackspan.core.topology import RackTree, TopologyError, domain_name
from rackspan.core.words import be, plural


def checked_tree(spec: PlacementSpec, tree: RackTree) -> RackTree:
    """Give the tree with the eligibility that `spec` leaves. Raises InfeasibleError where its numbers cannot be met."""
    if spec.partitions < len(spec.current):
        raise InfeasibleError(
            f"the topic has {plural(len(spec.current), 'partition')} and {spec.partitions} {be(spec.partitions)} asked "
            "for; Kafka removes none",
            f"raise partitions to {len(spec.current)}",
        )
    if spec.replication_factor < 1:
        raise InfeasibleError(f"replicationFactor is {spec.replication_factor}", "raise it to 1")
    for pattern in (*spec.include, *spec.exclude):
        if not tree.matches(pattern):
            raise InfeasibleError(f'"{pattern}" names no broker of the cluster', "correct or remove it")
    taken = len(tree) - tree.capacity
    tree = tree.selected(spec.include, spec.exclude)
    room = tree.capacity
    if spec.replication_factor > room:
        lacking = spec.replication_factor - room
        raise InfeasibleError(
            f"replicationFactor {spec.replication_factor} needs "
            f"{plural(spec.replication_factor, 'eligible broker')}, there {be(room)} {room}",
            f"{f'lower it to {room} or ' if room else ''}{f'drain {lacking} fewer or ' if taken >= lacking else ''}"
            f"add {plural(lacking, 'broker')}",
        )
    return tree


def refuse_missing_racks(tree: RackTree) -> None:
    """Raise MissingRackError where some brokers have a rack id and some have not."""
    if tree.missing_racks:
        raise MissingRackError(tree.missing_racks)


def refuse_impossible_spread(tree: RackTree, spec: PlacementSpec) -> None:
    """Raise InfeasibleError for a spread to be refused that small domains make impossible, or over an unknown level."""
    for wish in spec.spread:
        try:
            level = tree.level(wish.level)
        except TopologyError as error:
            raise InfeasibleError(str(error), "use one of these levels, or add it to the topology") from error
        if wish.when_unsatisfiable is not Unsatisfiable.REFUSE:
            continue
        depth = tree.levels.index(wish.level)
        above = tree.nodes[depth]
        windows = fair_windows(tree, spec.replication_factor)
        for domain, held in enumerate(windows.high[depth].tolist()):
            children = [at for at in range(len(level)) if level.parent[at] == domain and level.capacity[at] > 0]
            capacities = [int(level.capacity[at]) for at in children]
            split = _fair_split(capacities, held)
            if not split or max(split) - min(split) <= wish.max_skew:
                continue
            smallest = children[split.index(min(split))]
            where = domain_name(level.paths[smallest])
            lacking = _lacking(capacities, held, wish.max_skew)
            raise InfeasibleError(
                f"{plural(held, 'replica')} in {domain_name(above.paths[domain])} cannot be spread over level "
                f"{wish.level} with maxSkew {wish.max_skew}: {where} has "
                f"{plural(int(level.capacity[smallest]), 'eligible broker')}",
                f"{lacking}, raise maxSkew to {max(split) - min(split)}, or set whenUnsatisfiable: Best".replace(
                    "{where}", where
                ),
            )


def _fair_split(capacities: list[int], held: int) -> list[int]:
    split = [0] * len(capacities)
    for _ in range(held):
        free = [at for at, capacity in enumerate(capacities) if split[at] < capacity]
        split[min(free, key=lambda at: (split[at], -capacities[at]))] += 1
    return split


def _lacking(capacities: list[int], held: int, skew: int) -> str:
    """Say how many brokers the smallest domain lacks."""
    grown, added = list(capacities), 0
    at = grown.index(min(grown))
    while True:
        grown[at] += 1
        added += 1
        split = _fair_split(grown, held)
        if max(split) - min(split) <= skew or grown[at] >= held:
            return f"add {plural(added, 'broker')} in {{where}}"
