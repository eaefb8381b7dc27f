"""From a KafkaTopic's spec to a placement, its durability and the judgement of what Kafka holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rackspan.api.reasons import Reason
from rackspan.core.compliance import Compliance, judge
from rackspan.core.durability import Durability, DurabilityError, min_insync
from rackspan.core.placement import (
    ClusterView,
    InfeasibleError,
    MissingRackError,
    PlacementSpec,
    Spread,
    Unsatisfiable,
    seed_for,
)
from rackspan.core.placement.multilevel import reachable_leaders
from rackspan.core.topology import RackTree, parse_rack
from rackspan.core.words import plural
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopicSpec
    from rackspan.core.placement import Placer
    from rackspan.reconcile.cluster.state import Scene

Assignment = tuple[tuple[int, ...], ...]
MIN_ISR = "min.insync.replicas"


def placer_name(spec: KafkaTopicSpec, scene: Scene) -> str:
    """The topic's placer, else the topology's default."""
    return spec.placement.placer or scene.spec.defaults.placer


def guest(spec: KafkaTopicSpec, have: int, scene: Scene) -> str | None:
    """The placer that has to be asked where that is not a built-in one; there are `have` partitions already."""
    if spec.placement.assignment or spec.partitions <= have:
        return None
    name = placer_name(spec, scene)
    placer = scene.placers.get(name)
    return None if placer is None or type(placer).__module__.startswith("rackspan.") else name


def place(name: str, spec: KafkaTopicSpec, partitions: int, current: Assignment, scene: Scene) -> Assignment | None:
    """Replica lists of all `partitions`, keeping `current`; None where the placer defers to Kafka.

    Raises FailureError: unknown placer or level, missing racks, infeasible.
    """
    if spec.placement.assignment:
        return _explicit(spec, partitions, current, scene)
    placer = scene.placers.get(placer_name(spec, scene))
    if placer is None:
        known = ", ".join(sorted(scene.placers))
        raise _failure(
            Reason.UNKNOWN_PLACER, f"there is no placer {placer_name(spec, scene)!r}; installed are: {known}"
        )
    _refuse_if_no_rack_is_known(scene)
    request = PlacementSpec(
        partitions=partitions,
        replication_factor=spec.replication_factor,
        spread=spreads(spec, scene),
        include=spec.placement.brokers.include,
        exclude=spec.placement.brokers.exclude,
        leaders=tuple(parse_rack(domain) for domain in spec.placement.leaders),
        seed=seed_for(name) if spec.placement.seed is None else spec.placement.seed,
        start_index=spec.placement.start_index,
        shift=spec.placement.shift,
        current=current,
    )
    return _placed(placer_name(spec, scene), placer, request, scene)


def _placed(name: str, placer: Placer, request: PlacementSpec, scene: Scene) -> Assignment | None:
    """What the placer gives. Whatever goes wrong in one that somebody else wrote is that topic's failure alone."""
    try:
        placement = placer.place(request, ClusterView(scene.racks.tree, scene.load.replicas, scene.load.leaders))
        rows = None if placement is None else placement.partitions
    except MissingRackError as error:
        raise _failure(Reason.MISSING_RACKS, str(error)) from error
    except InfeasibleError as error:
        raise _failure(Reason.INFEASIBLE, str(error)) from error
    except Exception as error:
        raise _failure(Reason.PLACER_FAILED, f"the placer {name!r} failed: {type(error).__name__}: {error}") from error
    if rows is not None and len(rows) != request.partitions:
        raise _failure(
            Reason.PLACER_FAILED,
            f"the placer {name!r} gave {plural(len(rows), 'partition')}, {request.partitions} were asked for",
        )
    return rows


def spreads(spec: KafkaTopicSpec, scene: Scene) -> tuple[Spread, ...]:
    """The topic's spread constraints. Raises FailureError for a level that the topology does not have."""
    found = []
    for spread in spec.placement.spread:
        _known_level(spread.level, "spec.placement.spread", scene)
        found.append(Spread(spread.level, spread.max_skew, Unsatisfiable(spread.when_unsatisfiable)))
    return tuple(found)


def durability_of(spec: KafkaTopicSpec, scene: Scene) -> Durability | None:
    """The topic's durability, else the topology's default, else none. Raises FailureError for an unknown level."""
    wanted = spec.durability or scene.spec.defaults.durability
    if not wanted.min_domains and not wanted.tolerate:
        return None
    for level in (*wanted.min_domains, *wanted.tolerate):
        _known_level(level, "durability", scene)
    return Durability(min_domains=wanted.min_domains, tolerate=wanted.tolerate)


def wanted_config(spec: KafkaTopicSpec, replicas: Sequence[Sequence[int]], scene: Scene) -> Mapping[str, str]:
    """The configuration keys that are managed: `spec.config`, and min.insync.replicas where durability derives it.

    Derived from the partitions that lie as asked: what is out of place is told by compliance and mended by moves, not
    by a weaker promise. Raises FailureError where the durability cannot be had, or contradicts the value that was set.
    """
    durability = durability_of(spec, scene)
    given = spec.config_values.get(MIN_ISR)
    if durability is None:
        return spec.config_values
    in_place = _in_place(spec, replicas, scene)
    if not in_place:
        return spec.config_values
    tree = eligible_tree(spec, scene)
    try:
        found = min_insync(tree, in_place, durability, int(given) if given and given.isdigit() else None)
    except DurabilityError as error:
        raise _failure(Reason.DURABILITY_UNSATISFIABLE, str(error)) from error
    return {**spec.config_values, MIN_ISR: str(found.value)} if given is None else spec.config_values


def _in_place(spec: KafkaTopicSpec, replicas: Sequence[Sequence[int]], scene: Scene) -> list[Sequence[int]]:
    right_size = [row for row in replicas if len(row) == spec.replication_factor]
    if spec.placement.assignment:
        return right_size
    try:
        found = judged(spec, right_size, scene)
    except FailureError:
        return []
    if found.undecided:  # a promise that half of the partitions were asked for would change when the others are known
        return []
    return [row for row, wrong in zip(right_size, found.broken.tolist(), strict=True) if not wrong]


def eligible_tree(spec: KafkaTopicSpec, scene: Scene) -> RackTree:
    """The tree in which only the brokers that the topic may use have capacity."""
    tree = scene.racks.tree
    include, exclude = spec.placement.brokers.include, spec.placement.brokers.exclude
    return tree.selected(include, exclude)


def leads_elsewhere(spec: KafkaTopicSpec, scene: Scene) -> bool:
    """Whether all brokers of the domains preferred for leaders are offline, so that those of others lead."""
    wanted = tuple(parse_rack(domain) for domain in spec.placement.leaders)
    try:
        return bool(wanted) and not reachable_leaders(eligible_tree(spec, scene), wanted)
    except InfeasibleError:
        return False  # none may lead at all, which is told as such


@dataclass(frozen=True, slots=True)
class Explicit:
    """How far replicas are from an explicit assignment."""

    partitions: int
    different: tuple[int, ...]
    moves: int


def against_assignment(wanted: Assignment, replicas: Sequence[Sequence[int]]) -> Explicit:
    """Compare with an explicit assignment, partition by partition. A reordered list is different but moves nothing."""
    pairs = [(index, want, have) for index, (want, have) in enumerate(zip(wanted, replicas, strict=False))]
    return Explicit(
        partitions=len(pairs),
        different=tuple(index for index, want, have in pairs if tuple(want) != tuple(have)),
        moves=sum(len(set(want) - set(have)) for _, want, have in pairs),
    )


def judged(spec: KafkaTopicSpec, replicas: Sequence[Sequence[int]], scene: Scene) -> Compliance:
    """Compliance of what Kafka holds, unknown for the partitions that depend on a rack that is not known.

    Raises FailureError where none can be judged: no rack or a level is not known.
    """
    _refuse_if_no_rack_is_known(scene)
    return judge(eligible_tree(spec, scene), replicas, spreads(spec, scene))


def _explicit(spec: KafkaTopicSpec, partitions: int, current: Assignment, scene: Scene) -> Assignment:
    online = {row.id for row in scene.racks.rows if row.online}
    wanted = tuple(spec.placement.assignment[len(current) : partitions])
    absent = sorted({broker for row in wanted for broker in row} - online)
    if absent:
        names = ", ".join(map(str, absent))
        raise _failure(
            Reason.INFEASIBLE,
            f"spec.placement.assignment names brokers that are not in the cluster: {names}; "
            f"there are {', '.join(map(str, sorted(online)))}",
        )
    return current + wanted


def _refuse_if_no_rack_is_known(scene: Scene) -> None:
    """Raise FailureError where no broker has a rack, which to placers is a cluster without racks.

    Here it is a mistake, such as in a selector, unless the topology says to ignore it.
    """
    rows, missing = scene.racks.rows, scene.racks.missing
    if missing and len(missing) == len(rows) and not scene.racks.ignore_missing:
        why = missing[0].problem.message if missing[0].problem else "it is not known"
        raise _failure(Reason.MISSING_RACKS, f"no broker's rack is known; broker {missing[0].id}: {why}")


def _known_level(level: str, where: str, scene: Scene) -> None:
    if level not in scene.racks.levels:
        raise _failure(
            Reason.UNKNOWN_LEVEL,
            f"{where} names level {level!r}; topology {scene.topology} has: {', '.join(scene.racks.levels)}",
        )


def _failure(reason: Reason, message: str) -> FailureError:
    return FailureError(Failure(reason, message, Remedy.SPEC))
