"""The RackTopology of a source's Kafka cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.api.references import TopologyRef
from rackspan.imports.names import object_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.imports.imported_topics import SourceCluster

KAFKAS_OWN = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"))


@dataclass(frozen=True, slots=True)
class Topologies:
    """RackTopologies by the names of clusters in sources, and the default for all other clusters."""

    by_cluster: Mapping[str, TopologyRef] = field(default_factory=dict)
    default: TopologyRef | None = None

    def of(self, cluster: SourceCluster) -> TopologyRef:
        """Return the cluster's RackTopology: the given one, else the default, else one of the cluster's name."""
        said = self.by_cluster.get(str(cluster)) or self.by_cluster.get(cluster.name) or self.default
        return said or TopologyRef(object_name(cluster.name))


def is_internal(topic: str) -> bool:
    """Return whether a topic is internal to Kafka, or the store of Strimzi's Topic Operator."""
    return topic in KAFKAS_OWN or topic.startswith("__strimzi")
