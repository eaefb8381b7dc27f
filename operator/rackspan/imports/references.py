"""Which RackTopology a source's Kafka cluster is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rackspan.api.references import TopologyRef
from rackspan.imports.names import object_name

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Topologies:
    """RackTopologies by what sources call their clusters, and the one for all others."""

    by_cluster: Mapping[str, TopologyRef] = field(default_factory=dict)
    default: TopologyRef | None = None

    def of(self, cluster: str | None) -> TopologyRef | None:
        """The cluster's RackTopology: the one that was said, else one of the same name; None where there is no name."""
        known = self.by_cluster.get(cluster or "") or self.default
        return known or (TopologyRef(object_name(cluster)) if cluster else None)


def is_topic_name(name: str) -> bool:
    """Whether Kafka gives a topic this name."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def is_internal(topic: str) -> bool:
    """Whether a topic is one of Kafka's own, or of what runs beside it: they begin with two underscores."""
    return topic.startswith("__")
