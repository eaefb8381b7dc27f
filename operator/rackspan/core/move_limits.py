"""How many copies of replicas may be under way."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """
    How much may be under way at once.

    `moves` are copies under way in the cluster, `moves_per_broker` those that a broker gives as a leader or takes;
    `free_disk` is the share of a broker's disks that has to stay free. Replicas that leave several cordoned brokers at
    once may need more copies of one partition than that: they begin while nothing else is copied.
    """

    moves: int = 20
    moves_per_broker: int = 5
    free_disk: float = 0.05
