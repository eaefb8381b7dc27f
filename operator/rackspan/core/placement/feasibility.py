"""Checks of a request before placement, shared by all placers. They refuse impossible requests and give the reason."""

from dataclasses import replace

from rackspan.core.placement.shortfalls import shortfalls, smallest_change
from rackspan.core.placer import InfeasibleError, MissingRackError, PlacementSpec
from rackspan.core.rack_path import domain_name
from rackspan.core.text import be, few, plural, shown
from rackspan.core.topology import RackTree, TopologyError


def checked_tree(spec: PlacementSpec, tree: RackTree) -> RackTree:
    """Return the tree in which only brokers that `spec` selects are eligible. Raises InfeasibleError."""
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
            raise InfeasibleError(f'"{shown(pattern)}" names no broker of the cluster', "correct or remove it")
    every, tree = tree, tree.selected(spec.include, spec.exclude)
    room = tree.capacity
    if spec.replication_factor > room:
        needed = spec.replication_factor - room
        taken = _named(every, spec) - room
        raise InfeasibleError(
            f"replicationFactor {spec.replication_factor} needs "
            f"{plural(spec.replication_factor, 'eligible broker')}, there {be(room)} {room}",
            f"{f'lower it to {room} or ' if room else ''}{f'drain {needed} fewer or ' if taken >= needed else ''}"
            f"add {plural(needed, 'broker')}{' that include and exclude leave' if every != tree else ''}",
        )
    return tree


def _named(tree: RackTree, spec: PlacementSpec) -> int:
    """Return the number of brokers that `include` and `exclude` select, eligible or not."""
    every = RackTree(tree.levels, tuple(replace(broker, eligible=True) for broker in tree.brokers))
    return every.selected(spec.include, spec.exclude).capacity


def refuse_too_few(tree: RackTree, size: int) -> None:
    """Raise InfeasibleError if fewer than `size` brokers are eligible and open."""
    room = tree.without_closed().capacity
    if room < size:
        state, _ = reopening(tree, size)
        back = "back or uncordon " if _cordoned(tree) else ""
        raise InfeasibleError(
            f"{plural(size, 'replica')} need{'s' * (size == 1)} {plural(size, 'broker')} that {be(size)} {state}, "
            f"there {be(room)} {room}",
            f"bring {back}{size - room} more{'' if back else ' back'}",
        )


def reopening(tree: RackTree, size: int) -> tuple[str, str]:
    """Return the state that brokers need to get new replicas, and how the user can bring the closed brokers into it.

    A drain of the closed brokers helps only if there are `size` others.
    """
    drains = tree.without_closed().capacity >= size
    offline = [broker.id for broker in tree.brokers if broker.eligible and not broker.online]
    closed = (
        ("online", offline, "bring {} back", ", or drain {} if gone for good"),
        ("not cordoned", _cordoned(tree), "remove cordoned.log.dirs from {}", ", or drain {}"),
    )
    states, remedies = [], []
    for state, brokers, remedy, drain in closed:
        if brokers:
            states.append(state)
            remedies.append(remedy.format(few([f"broker {broker}" for broker in brokers])))
            if drains:
                remedies[-1] += drain.format("them" if len(brokers) > 1 else "it")
    return " and ".join(states), "; ".join(remedies)


def _cordoned(tree: RackTree) -> list[int]:
    """Return the cordoned brokers that could get replicas after an uncordon. Drained brokers could not."""
    return [broker.id for broker in tree.brokers if broker.cordoned and broker.eligible]


def refuse_missing_racks(tree: RackTree) -> None:
    """Raise MissingRackError if some brokers have a rack id and some do not."""
    if tree.missing_racks:
        raise MissingRackError(tree.missing_racks)


def refuse_leaders(spec: PlacementSpec, placer: str) -> None:
    """Raise InfeasibleError if domains are preferred for leaders. This placer does not choose leaders by domain."""
    if spec.leaders:
        raise InfeasibleError(
            f"the placer {placer} ignores the domains preferred for leaders", "remove leaders, or choose MultiLevel"
        )


def refuse_impossible_spread(tree: RackTree, spec: PlacementSpec) -> None:
    """Raise InfeasibleError if a spread has an unknown level, or must be refused because domains are too small."""
    if not spec.spread:
        return
    try:
        found = shortfalls(tree, spec.replication_factor, spec.spread)
    except TopologyError as error:
        raise InfeasibleError(str(error), "use one of these levels, or add it to the topology") from error
    if not found:
        return
    short, level = found[0], tree.nodes[found[0].depth]
    least = min(short.capacities)
    smallest = level.paths[short.children[short.capacities.index(least)]]
    raise InfeasibleError(
        f"{plural(short.held, 'replica')} in {domain_name(tree.nodes[short.depth - 1].paths[short.domain])} cannot be "
        f"spread over level {level.name} with maxSkew {short.rule.max_skew}: {domain_name(smallest)} has "
        f"{plural(least, 'eligible broker')}",
        smallest_change(tree, spec.replication_factor, spec.spread),
    )
