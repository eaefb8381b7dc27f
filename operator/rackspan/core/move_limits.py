"""Limits on copies of replicas that are under way at the same time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the copies that are under way at the same time.

    `moves` limits the copies in the cluster, `moves_per_broker` the copies that a broker sends as a leader or receives.
    `free_disk` is the share of a broker's disks that has to stay free. If replicas leave several cordoned brokers at
    once, one partition may need more copies than the limits: these copies start when nothing else is being copied.
    """

    moves: int = 20
    moves_per_broker: int = 5
    free_disk: float = 0.05
