"""Definitions with the present state of their topics in Kafka, so that applying them changes nothing.

If a definition and Kafka disagree, the definition gets the value from Kafka and a remark. Replicas that are not spread
fairly are kept by an explicit assignment or left to the plan, as `KeptAssignment` selects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from rackspan.api.kafkatopic import TopicPlacement, requirements_of
from rackspan.api.policies import DurabilitySpec
from rackspan.core.compliance import judge
from rackspan.core.planning import PlanRequest, plan
from rackspan.core.text import plural, shown
from rackspan.imports.cluster_import import most_common
from rackspan.imports.imported_configs import accepted_configs
from rackspan.imports.imported_topics import (
    STRATEGY,
    Definition,
    Imported,
    RemarkKind,
    Skipped,
    converted,
    differs,
    would_change,
)
from rackspan.imports.kept_assignment import KeptAssignment
from rackspan.imports.shared_fields import MOST_ROWS, WIDEST_ROW
from rackspan.reconcile.specs.topic_configs import same_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rackspan.api.kafkatopic import KafkaTopicSpec
    from rackspan.core.planning import Plan
    from rackspan.core.snapshot import Snapshot
    from rackspan.core.topology import RackTree
    from rackspan.imports.imported_topics import Remark

Rows = tuple[tuple[int, ...], ...]
_MAX_SHOWN = 100
NEW_TOPIC = would_change("topic", "Kafka has no such topic: applying the manifest creates it")


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic in Kafka: replicas, the configs set on the topic, its `unfair` partitions and the moves that fix them."""

    rows: Rows
    config: Mapping[str, str]
    unfair: int
    moves: int


def as_present(imported: Imported, snapshot: Snapshot, tree: RackTree, assignment: KeptAssignment) -> Imported:
    """Return the definitions with the state of their topics in the snapshot; skip topics whose replicas cannot be kept.

    A topic that is not in the snapshot keeps its definition.
    """
    topics = _topics(snapshot, tree, {one.topic for one in imported.definitions})
    found = Imported.of(
        one.with_remarks(NEW_TOPIC) if one.topic not in topics else _as_present(one, topics[one.topic], assignment)
        for one in imported.definitions
    )
    return replace(imported, definitions=(), refused=()) + found + Imported(refused=imported.refused)


def plan_of_topics(specs: Mapping[str, KafkaTopicSpec], snapshot: Snapshot, tree: RackTree) -> Plan:
    """Return the plan for these topics alone, as the operator would make it after their manifests are applied.

    The keys of `specs` are names in Kafka. Topics that are not in the snapshot are skipped. Raises MissingRackError.
    """
    names = frozenset(specs).intersection(snapshot.partitions.names)
    required = {name: requirements_of(specs[name], DurabilitySpec()) for name in sorted(names)}
    return plan(PlanRequest(tree, snapshot.partitions, names, required))


def _topics(snapshot: Snapshot, tree: RackTree, wanted: set[str]) -> dict[str, _Topic]:
    partitions = snapshot.partitions
    judged = judge(tree, partitions.replicas)
    count = len(partitions.names)
    bounds = np.searchsorted(partitions.topic, np.arange(count + 1)).tolist()
    unfair = np.bincount(partitions.topic, judged.broken, count).astype(int).tolist()
    moves = np.bincount(partitions.topic, judged.moves_of, count).astype(int).tolist()
    return {
        name: _Topic(
            tuple(
                tuple(broker for broker in row if broker >= 0)
                for row in partitions.replicas[bounds[at] : bounds[at + 1]].tolist()
            ),
            snapshot.own_config(at),
            unfair[at],
            moves[at],
        )
        for at, name in enumerate(partitions.names)
        if name in wanted
    }


def _as_present(one: Definition, seen: _Topic, assignment: KeptAssignment) -> Definition | Skipped:
    sizes = [len(row) for row in seen.rows]
    least, most = min(sizes), max(sizes)
    if least < most and assignment is not KeptAssignment.NEVER:
        return _skipped(
            one, f"its partitions have {least} to {most} replicas, and a KafkaTopic has one replicationFactor"
        )
    factor = most_common(sizes)
    config, remarks = _configs(one, seen, factor)
    remarks += _counts(one, seen, factor)
    if least < most:
        remarks.append(would_change("replicationFactor", f"its partitions have {least} to {most} replicas"))
    spec = structs.replace(one.spec, partitions=len(seen.rows), replication_factor=factor, config=config)
    kept = replace(one, spec=spec, open_fields=(), remarks=(*one.remarks, *remarks))
    return _placed(kept, seen, assignment)


def _placed(one: Definition, seen: _Topic, assignment: KeptAssignment) -> Definition | Skipped:
    wanted = one.spec.placement.assignment
    unfair = (
        f"{seen.unfair} of {plural(len(seen.rows), 'partition')} {'is' if seen.unfair == 1 else 'are'} not spread "
        f"fairly; a fair spread copies {plural(seen.moves, 'replica')}"
    )
    if assignment is KeptAssignment.NEVER:
        if wanted and wanted != seen.rows:
            return one.with_remarks(would_change("placement", "its assignment is not where the replicas are in Kafka"))
        return one.with_remarks(would_change("placement", unfair)) if seen.unfair and not wanted else one
    if not (wanted or assignment is KeptAssignment.ALWAYS or seen.unfair):
        return one
    if len(seen.rows) > MOST_ROWS or max(map(len, seen.rows)) > WIDEST_ROW:
        return _skipped(
            one,
            f"{unfair}; an assignment that keeps them has at most {MOST_ROWS:,} partitions of {WIDEST_ROW} replicas",
        )
    pinned = replace(
        one,
        spec=structs.replace(one.spec, placement=TopicPlacement(assignment=seen.rows)),
        remarks=tuple(_by_assignment(remark) for remark in one.remarks),
    )
    if wanted and wanted != seen.rows:
        return pinned.with_remarks(
            differs("placement", "the definition assigns other brokers than Kafka has, which are imported")
        )
    if seen.unfair and not wanted:
        return pinned.with_remarks(converted("placement", f"pinned by spec.placement.assignment: {unfair}"))
    return pinned


def _by_assignment(remark: Remark) -> Remark:
    """Return a remark that pinned replicas keep the result of the source's strategy; other remarks unchanged."""
    if remark.field != STRATEGY or remark.kind is not RemarkKind.NOT_KEPT:
        return remark
    return converted(STRATEGY, f"{remark.message}; spec.placement.assignment pins what it made")


def _counts(one: Definition, seen: _Topic, factor: int) -> Iterator[Remark]:
    for field, said, there in (
        ("partitions", one.spec.partitions, len(seen.rows)),
        ("replicationFactor", one.spec.replication_factor, factor),
    ):
        if said != there and field not in one.open_fields:
            yield differs(field, f"the definition says {said:,}, Kafka has {there:,}, which is imported")


def _configs(one: Definition, seen: _Topic, factor: int) -> tuple[dict[str, int | str], list[Remark]]:
    """Return the configs that the definition manages, with the values from Kafka, and remarks on differences."""
    texts, remarks = dict[str, str](), []
    for key, said in one.spec.config.items():
        there = seen.config.get(key)
        field, quoted = f"config {shown(key, _MAX_SHOWN)}", _quoted(said)
        if there is None:
            remarks.append(differs(field, f"the definition says {quoted}, in Kafka it is not set; it is left out"))
        elif same_value(str(said), there):
            texts[key] = str(said)
        else:
            texts[key] = there
            imported = f"the definition says {quoted}, Kafka has {_quoted(there)}, which is imported"
            remarks.append(differs(field, imported))
    config, refused = accepted_configs(texts, factor)
    return config, [*remarks, *refused]


def _quoted(value: int | str) -> str:
    return shown(str(value), _MAX_SHOWN)


def _skipped(one: Definition, reason: str) -> Skipped:
    never = "; with --assignment never it is imported, and the plan fixes it"
    return Skipped(one.source, f"topic {one.topic}", f"{reason}{never}")
