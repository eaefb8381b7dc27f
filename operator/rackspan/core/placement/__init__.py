"""Placing replicas: what a placer is asked and answers. Placers are found by name, see `rackspan.placers`."""

from rackspan.core.placement.seeds import seed_for
from rackspan.core.placer import (
    ClusterView,
    InfeasibleError,
    MissingRackError,
    Placement,
    PlacementSpec,
    Placer,
    Spread,
    Unsatisfiable,
)

__all__ = [
    "ClusterView",
    "InfeasibleError",
    "MissingRackError",
    "Placement",
    "PlacementSpec",
    "Placer",
    "Spread",
    "Unsatisfiable",
    "seed_for",
]
