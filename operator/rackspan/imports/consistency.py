"""What several definitions say together: of which clusters they are, and whether they contradict each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rackspan.core.text import shown
from rackspan.imports.topics import Definition, Imported, Refused, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator


def of_cluster(imported: Imported, cluster: str | None) -> Imported:
    """Those of one cluster, by what the source calls it; all without one."""
    if cluster is None:
        return imported
    others = Imported.of(
        one
        if one.cluster == cluster
        else Skipped(one.source, f"topic {one.topic}", f"it is of cluster {shown(one.cluster or 'without a name')}")
        for one in imported.definitions
    )
    return replace(imported, definitions=()) + others


def consistent(imported: Imported) -> Imported:
    """Refuse topics that are defined twice, and clusters that are called the same and are two."""
    return replace(imported, definitions=()) + Imported.of(_checked(imported))


def decided(imported: Imported) -> Imported:
    """Refuse definitions that leave to the brokers what nobody has looked up there."""
    return replace(imported, definitions=()) + Imported.of(
        Refused(one.source, _undecided(one)) if one.open_fields else one for one in imported.definitions
    )


def _checked(imported: Imported) -> Iterator[Definition | Refused]:
    seen: dict[tuple[object, str], Definition] = {}
    variants: dict[object, Definition] = {}
    for one in imported.definitions:
        reference = one.spec.topology_ref
        first = seen.setdefault((reference, one.topic), one)
        other = variants.setdefault(one.cluster, one)
        if other.variant != one.variant:
            yield Refused(
                one.source,
                f"topic {one.topic}: is of a cluster {shown(one.cluster or '')} in {shown(one.variant)}, and others of "
                f"one in {shown(other.variant)}: import their files one cluster at a time",
            )
        elif first is not one:
            yield Refused(
                one.source,
                f"topic {one.topic} of RackTopology {reference.name} is defined before, at {first.source}",
            )
        else:
            yield one


def _undecided(one: Definition) -> str:
    words = {"partitions": "spec.partitions", "replicationFactor": "spec.replicas"}
    fields = " and ".join(words[field] for field in one.open_fields)
    verb = "are" if len(one.open_fields) > 1 else "is"
    return (
        f"topic {one.topic}: {fields} {verb} left to the brokers: pass --bootstrap-server or --snapshot, to look them "
        "up there"
    )
