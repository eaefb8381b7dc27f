"""Durability: the bounds of `min.insync.replicas`, its guarantees to producers, and a replication factor for it."""

from rackspan.core.durability.min_insync_bounds import (
    Durability,
    DurabilityError,
    effective_min_insync,
    insync_bounds,
    min_insync,
)
from rackspan.core.durability.write_guarantees import LevelGuarantee, WriteGuarantee, write_guarantees

__all__ = [
    "Durability",
    "DurabilityError",
    "LevelGuarantee",
    "WriteGuarantee",
    "effective_min_insync",
    "insync_bounds",
    "min_insync",
    "write_guarantees",
]
