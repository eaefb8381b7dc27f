"""Computes the placement, the managed configs and the compliance for a KafkaTopic's spec. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from rackspan.api.kafkatopic import requirements_of
from rackspan.api.reasons import Reason
from rackspan.core.compliance import Compliance, judge
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.core.durability import DurabilityError, min_insync
from rackspan.core.placement import ClusterView, InfeasibleError, MissingRackError
from rackspan.core.placement.multilevel import ATTEMPTS, reachable_leaders
from rackspan.core.text import be, plural
from rackspan.reconcile.cluster.batching import MAX_PARTITIONS_AT_ONCE
from rackspan.reconcile.failures import Failure, FailureError, Remedy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic, KafkaTopicSpec
    from rackspan.core.placement import PlacementSpec, Placer
    from rackspan.core.requirements import TopicRequirements
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import TopicDescription


Assignment = tuple[tuple[int, ...], ...]
MAX_REPLICAS = 500_000
"""The most replicas of one topic, for example 100,000 partitions with five replicas each."""
MAX_CELLS = 100_000_000
"""The most partitions times brokers, because some arrays have a row per partition and a column per broker."""
MAX_WIDTH = 500
"""The most replicas of one partition: a thousand on a thousand brokers would take 11 seconds to place."""
PORTION = 50_000
"""The most `cost` in one uninterrupted computation: about half a second, so that topologies take turns."""


def placer_name(spec: KafkaTopicSpec, state: ClusterState) -> str:
    """Return the name of the topic's placer, else of the topology's default placer."""
    return spec.placement.placer or state.spec.defaults.placer


def third_party_placer(spec: KafkaTopicSpec, have: int, state: ClusterState) -> str | None:
    """Return the placer's name if it is not built in and has partitions to place. `have` partitions exist already."""
    if spec.placement.assignment or spec.partitions <= have:
        return None
    name = placer_name(spec, state)
    placer = state.placers.get(name)
    return None if placer is None or type(placer).__module__.startswith("rackspan.") else name


def place(
    name: str, spec: KafkaTopicSpec, partitions: int, current: Assignment, state: ClusterState
) -> Assignment | None:
    """Return the ordered replica lists of all `partitions`, beginning with `current`, or None to let Kafka choose.

    Kafka adds partitions only with as many replicas as partition 0 has. Another replication factor needs a plan.

    Raises FailureError for an unknown placer or level, missing racks, an infeasible request, or a failing placer.
    """
    if spec.placement.assignment:
        return _explicit(spec, partitions, current, state)
    placer = state.placers.get(placer_name(spec, state))
    if placer is None:
        known = ", ".join(sorted(state.placers))
        raise _failure(
            Reason.UNKNOWN_PLACER, f"there is no placer {placer_name(spec, state)!r}; installed are: {known}"
        )
    _refuse_if_no_rack_is_known(state)
    replicas = len(current[0]) if current else spec.replication_factor
    request = requirements(spec, state).placement_spec(name, partitions, replicas, current)
    return _placed(placer_name(spec, state), placer, request, state)


def _placed(name: str, placer: Placer, request: PlacementSpec, state: ClusterState) -> Assignment | None:
    """Call the placer. Any exception of a third-party placer becomes a failure of this topic."""
    try:
        placement = placer.place(request, ClusterView(state.racks.tree, state.load.replicas, state.load.leaders))
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


def requirements(spec: KafkaTopicSpec, state: ClusterState) -> TopicRequirements:
    """Return the topic's requirements. Raises FailureError if a spread names a level that the topology lacks."""
    for spread in spec.placement.spread:
        _known_level(spread.level, "spec.placement.spread", state)
    return requirements_of(spec, state.spec.defaults.durability)


@dataclass(frozen=True, slots=True)
class Judged:
    """The compliance of one topic's replica lists, or why it cannot be computed."""

    replicas: Assignment
    compliance: Compliance | Failure = field(compare=False)


@dataclass(frozen=True, slots=True)
class ManagedConfig:
    """The configs that the operator sets, and the compliance if a config was derived from it."""

    values: Mapping[str, str]
    judged: Judged | None = None


def managed_config(spec: KafkaTopicSpec, replicas: Assignment, state: ClusterState) -> ManagedConfig:
    """Return `spec.config`, and min.insync.replicas if it is derived from the durability.

    It is derived from the compliant partitions only: a misplaced replica is reported and moved, and does not weaken the
    guarantee. Raises FailureError if the durability cannot be met, contradicts the value in `spec.config`, or names an
    unknown level.
    """
    required = requirements_of(spec, state.spec.defaults.durability)
    for level in (*required.durability.min_domains, *required.durability.tolerate):
        _known_level(level, "durability", state)
    if not required.durability:
        return ManagedConfig(spec.config_values)
    found = None if spec.placement.assignment else judged(spec, replicas, state)
    return ManagedConfig(_with_min_insync(spec, _in_place(spec, replicas, found), required, state), found)


def _with_min_insync(
    spec: KafkaTopicSpec, in_place: Sequence[Sequence[int]], required: TopicRequirements, state: ClusterState
) -> Mapping[str, str]:
    if not in_place:
        return spec.config_values
    tree = required.eligible(state.racks.tree)
    try:
        value = min_insync(tree, in_place, required.durability, spec.own_min_insync)
    except DurabilityError as error:
        raise _failure(Reason.DURABILITY_UNSATISFIABLE, str(error)) from error
    return {**spec.config_values, MIN_INSYNC: spec.config_values.get(MIN_INSYNC, str(value))}


def _in_place(spec: KafkaTopicSpec, replicas: Assignment, found: Judged | None) -> Sequence[Sequence[int]]:
    """Return the compliant replica lists of the right size, or none if some cannot be judged or are shorter.

    A value derived from some partitions could change once the others are known. While the replication factor is being
    raised, the value for partitions with their new replica would leave the others no replica that may lag.
    """
    if any(len(row) < spec.replication_factor for row in replicas):
        return ()
    right_size = np.fromiter((len(row) == spec.replication_factor for row in replicas), bool, len(replicas))
    if found is None:
        return list(compress(replicas, right_size))
    if isinstance(found.compliance, Failure):
        return ()
    broken, unknown = found.compliance.broken, found.compliance.unknown
    if np.any(unknown & right_size):
        return ()
    return list(compress(replicas, ~broken & right_size))


def leads_elsewhere(spec: KafkaTopicSpec, state: ClusterState) -> bool:
    """Return whether all brokers of the domains preferred for leaders are offline, so that others lead."""
    wanted = requirements_of(spec, state.spec.defaults.durability)
    try:
        return bool(wanted.leaders) and not reachable_leaders(wanted.eligible(state.racks.tree), wanted.leaders)
    except InfeasibleError:
        return False  # reported when the topic is placed


def judged(spec: KafkaTopicSpec, replicas: Assignment, state: ClusterState) -> Judged:
    """Return the compliance of `replicas`. Partitions that depend on a missing rack are unknown.

    The compliance is a Failure if none can be judged: no rack is known, or the topology lacks a level of the spec.
    """
    try:
        _refuse_if_no_rack_is_known(state)
        required = requirements(spec, state)
        tree = required.eligible(state.racks.tree)
        return Judged(replicas, judge(tree, replicas, required.spread, required.replication_factor))
    except FailureError as error:
        return Judged(replicas, error.failure)


def _explicit(spec: KafkaTopicSpec, partitions: int, current: Assignment, state: ClusterState) -> Assignment:
    online = {row.id for row in state.racks.rows if row.online}
    wanted = tuple(spec.placement.assignment[len(current) : partitions])
    absent = sorted({broker for row in wanted for broker in row} - online)
    if absent:
        names = ", ".join(map(str, absent))
        raise _failure(
            Reason.INFEASIBLE,
            f"spec.placement.assignment names brokers that are not in the cluster: {names}; "
            f"there {be(len(online))} {', '.join(map(str, sorted(online)))}",
        )
    cordoned = sorted({broker for row in wanted for broker in row}.intersection(state.racks.tree.cordoned))
    if cordoned:
        raise _failure(
            Reason.INFEASIBLE,
            f"spec.placement.assignment gives new partitions to brokers that are cordoned in Kafka: "
            f"{', '.join(map(str, cordoned))}; name other brokers, or remove cordoned.log.dirs there",
        )
    return current + wanted


def _refuse_if_no_rack_is_known(state: ClusterState) -> None:
    """Raise FailureError if no broker has a rack, unless `missingRackPolicy` is Ignore.

    Placers would treat this as a cluster without racks. Here it is a mistake, such as a wrong selector.
    """
    rows, missing = state.racks.rows, state.racks.missing
    if missing and len(missing) == len(rows) and not state.racks.ignore_missing:
        why = missing[0].problem.message if missing[0].problem else "it is not known"
        raise _failure(Reason.MISSING_RACKS, f"no broker's rack is known; broker {missing[0].id}: {why}")


def _known_level(level: str, where: str, state: ClusterState) -> None:
    levels = state.racks.tree.levels
    if level not in levels:
        known = ", ".join(levels) or "none, while a broker has no rack (its spec.missingRackPolicy is Ignore)"
        raise _failure(Reason.UNKNOWN_LEVEL, f"{where} names level {level!r}; topology {state.topology} has: {known}")


def _failure(reason: Reason, message: str) -> FailureError:
    return FailureError(Failure(reason, message, Remedy.SPEC))


def size(topic: KafkaTopic, seen: TopicDescription | None) -> tuple[int, int]:
    """Return the numbers of partitions and replicas for computations.

    They are those in Kafka plus those that the spec adds, up to the number that is created in one pass.
    """
    spec, have = topic.spec, len(seen.replicas) if seen is not None else 0
    held = sum(map(len, seen.replicas)) if seen is not None else 0
    new = min(max(0, spec.partitions - have), MAX_PARTITIONS_AT_ONCE)
    partitions = have + new
    return partitions, max(held + new * spec.replication_factor, partitions)


def too_large(topic: KafkaTopic, seen: TopicDescription | None, state: ClusterState) -> Failure | None:
    """Return why the topic is too large to be placed and judged, or None if it is within the limits."""
    partitions, replicas = size(topic, seen)
    brokers = len(state.racks.rows)
    width = max(topic.spec.replication_factor, *map(len, seen.replicas if seen is not None else ()), 0)
    if width > MAX_WIDTH:
        found, limit = f"{plural(width, 'replica')} of one partition", f"{MAX_WIDTH:,}"
    elif replicas > MAX_REPLICAS:
        found, limit = plural(replicas, "replica"), f"{MAX_REPLICAS:,}"
    elif partitions * brokers > MAX_CELLS:
        found, limit = f"{partitions * brokers:,} pairs of a partition and a broker", f"{MAX_CELLS:,}"
    else:
        return None
    return Failure(
        Reason.TOO_LARGE,
        f"topic {topic.topic_name} has {found} ({plural(partitions, 'partition')}, {plural(brokers, 'broker')}), more "
        f"than the {limit} that are computed with: it is neither placed nor judged",
        Remedy.SPEC,
    )


def cost(topic: KafkaTopic, seen: TopicDescription | None, state: ClusterState) -> int:
    """Return the relative computing time, in about 10 microseconds.

    It is 100 + replicas + partitions x brokers / 100 for each attempt, and patterns x brokers / 15.
    """
    partitions, replicas = size(topic, seen)
    placement, brokers = topic.spec.placement, len(state.racks.rows)
    attempts = ATTEMPTS if placement.leaders else 1
    patterns = len(placement.brokers.include) + len(placement.brokers.exclude)
    return attempts * (100 + replicas + partitions * brokers // 100) + patterns * brokers // 15
