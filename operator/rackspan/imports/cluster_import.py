"""Definitions of the topics in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rackspan.api.kafkatopic import KafkaTopicSpec
from rackspan.imports.imported_configs import accepted_configs
from rackspan.imports.imported_references import is_internal
from rackspan.imports.imported_topics import Definition, Skipped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rackspan.api.references import TopologyRef
    from rackspan.core.snapshot import Snapshot
    from rackspan.imports.imported_topics import Source

INTERNAL = "the topics of Kafka and of Strimzi's Topic Operator have no object"


def cluster_topics(
    snapshot: Snapshot, chosen: Collection[int], topology: TopologyRef, namespace: str | None, source: Source
) -> Iterator[Definition | Skipped]:
    """Yield definitions of the `chosen` topics (indexes) as they are in the snapshot; `source` is the cluster or file.

    The definitions have no placement: `present` sets the placement.
    """
    partitions = snapshot.partitions
    sizes = partitions.replication_factor
    bounds = np.searchsorted(partitions.topic, np.arange(len(partitions.names) + 1)).tolist()
    for at in sorted(chosen, key=partitions.names.__getitem__):
        topic = partitions.names[at]
        if is_internal(topic):
            yield Skipped(source, f"topic {topic}", INTERNAL)
            continue
        factor = most_common(sizes[bounds[at] : bounds[at + 1]].tolist())
        config, remarks = accepted_configs(snapshot.own_config(at), factor)
        spec = KafkaTopicSpec(topology, bounds[at + 1] - bounds[at], factor, topic, config)
        yield Definition(source, topic, spec, namespace=namespace, remarks=remarks)


def most_common(sizes: list[int]) -> int:
    """Return the most frequent number; the larger one on a tie."""
    return max(set(sizes), key=lambda size: (sizes.count(size), size))
