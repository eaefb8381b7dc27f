"""Which RackTopology a source's Kafka cluster is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.api.references import TopologyRef
from rackspan.imports.names import object_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rackspan.imports.imported_topics import SourceCluster

KAFKAS_OWN = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"))
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Topologies:
    """RackTopologies by what sources call their clusters, and the one for all others."""

    by_cluster: Mapping[str, TopologyRef] = field(default_factory=dict)
    default: TopologyRef | None = None

    def of(self, cluster: SourceCluster) -> TopologyRef:
        """The cluster's RackTopology: the one that was said, else one of the same name."""
        said = self.by_cluster.get(str(cluster)) or self.by_cluster.get(cluster.name) or self.default
        return said or TopologyRef(object_name(cluster.name))


def is_topic_name(name: str) -> bool:
    """Whether Kafka gives a topic this name."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def is_internal(topic: str) -> bool:
    """Whether a topic is one of Kafka's own, or the store of Strimzi's Topic Operator."""
    return topic in KAFKAS_OWN or topic.startswith("__strimzi")
