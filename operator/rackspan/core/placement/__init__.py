"""Placement of replicas: the input and output of placers. Placers are looked up by name, see `rackspan.placers`."""

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
