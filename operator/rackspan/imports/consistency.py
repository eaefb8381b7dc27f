"""Checks across several definitions: their clusters, and contradictions between definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rackspan.api.racktopology import INTERNAL_PREFIX
from rackspan.core.text import shown
from rackspan.imports.imported_topics import Definition, Refused, Skipped, not_kept

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rackspan.imports.imported_topics import Imported, SourceCluster

_REFUSED = not_kept(
    "topic", "it is internal: the operator refuses it unless spec.internalTopics of the RackTopology lists it"
)


def located(imported: Imported) -> Imported:
    """Set `where` of clusters without it, if only one cluster of the same name has it.

    Manifests for `kubectl apply --namespace` contain no namespace.
    """
    known: dict[str, set[SourceCluster]] = {}
    for one in imported.definitions:
        if one.cluster is not None and one.cluster.where:
            known.setdefault(one.cluster.name, set()).add(one.cluster)
    only = {name: clusters.copy().pop() for name, clusters in known.items() if len(clusters) == 1}
    return imported.redefined(
        one
        if one.cluster is None or one.cluster.where
        else replace(one, cluster=only.get(one.cluster.name, one.cluster))
        for one in imported.definitions
    )


def of_cluster(imported: Imported, cluster: str | None) -> Imported:
    """Skip the topics of other clusters than those named `cluster`; without a name, keep all topics."""
    if cluster is None:
        return imported
    return imported.redefined(
        one
        if one.cluster is not None and one.cluster.known_as(cluster)
        else Skipped(one.source, f"topic {one.topic}", f"it is of cluster {_named(one.cluster)}")
        for one in imported.definitions
    )


def consistent(imported: Imported) -> Imported:
    """Refuse topics that are defined twice, and topics of a second cluster for the same RackTopology."""
    return imported.redefined(_checked(imported))


def decided(imported: Imported) -> Imported:
    """Refuse definitions with fields that are left to the brokers and have not been looked up there."""
    return imported.redefined(
        Refused(one.source, _undecided(one)) if one.open_fields else one for one in imported.definitions
    )


def admitted(imported: Imported, internal_topics: Collection[str]) -> Imported:
    """Add a remark to each topic that the operator refuses as internal. `internal_topics` are those that it admits."""
    return imported.redefined(
        one.with_remarks(_REFUSED)
        if one.topic.startswith(INTERNAL_PREFIX) and one.topic not in internal_topics
        else one
        for one in imported.definitions
    )


def _checked(imported: Imported) -> Iterator[Definition | Refused]:
    seen: dict[tuple[object, str], Definition] = {}
    clusters: dict[object, Definition] = {}
    for one in imported.definitions:
        reference = one.spec.topology_ref
        target = (reference.namespace or one.namespace, reference.name)
        keys = [(key, one.topic) for key in (target, one.cluster) if key is not None]
        first = next((seen[key] for key in keys if key in seen), None)
        other = one if one.cluster is None else clusters.setdefault(target, one)
        if other.cluster != one.cluster:
            yield Refused(
                one.source,
                f"topic {one.topic}: clusters {_named(other.cluster)} and {_named(one.cluster)} would both be "
                f"RackTopology {reference.name}: pass --cluster {_named(one.cluster)} to import one of them, or "
                f"--topology-ref {_named(one.cluster)}=NAME",
            )
        elif first is not None:
            yield Refused(
                one.source,
                f"topic {one.topic} of RackTopology {reference.name} is defined before, at {first.source}",
            )
        else:
            seen |= dict.fromkeys(keys, one)
            yield one


def _named(cluster: SourceCluster | None) -> str:
    return "without a name" if cluster is None else shown(str(cluster))


def _undecided(one: Definition) -> str:
    words = {"partitions": "spec.partitions", "replicationFactor": "spec.replicas"}
    fields = " and ".join(words[field] for field in one.open_fields)
    verb = "are" if len(one.open_fields) > 1 else "is"
    return (
        f"topic {one.topic}: {fields} {verb} left to the brokers: pass --bootstrap-server or --snapshot, to look them "
        "up there"
    )
