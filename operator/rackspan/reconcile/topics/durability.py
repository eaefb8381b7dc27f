"""What a topic's status says of acknowledged writes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rackspan.api.kafkatopic import DurabilityStatus, LevelDurability
from rackspan.core.durability import write_guarantees
from rackspan.core.placement import Placement

if TYPE_CHECKING:
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import TopicDescription
    from rackspan.reconcile.topics.outcome import Outcome


def durability_status(outcome: Outcome, seen: TopicDescription, state: ClusterState) -> DurabilityStatus | None:
    """What writes survive now. Where the configuration could not be read, what was known before stays."""
    if outcome.config is None:
        return outcome.topic.status.durability
    least = outcome.config.min_insync
    if least is None or not seen.replicas:
        return None
    replicas = Placement(seen.replicas).padded
    topic = np.zeros(len(replicas), dtype=np.int64)
    found = write_guarantees(state.racks.tree, replicas, topic, np.array([least]))[0]
    return DurabilityStatus(
        found.sentence,
        tuple(LevelDurability(one.level, one.domains, one.keeps_writes, one.stays_writable) for one in found.levels),
    )
