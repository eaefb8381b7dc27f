"""Durability: what `min.insync.replicas` has to be, and the replication factor with which it can be had."""

from rackspan.core.durability.min_insync_bounds import (
    Durability,
    DurabilityError,
    MinInsync,
    insync_bounds,
    min_insync,
)

__all__ = ["Durability", "DurabilityError", "MinInsync", "insync_bounds", "min_insync"]
