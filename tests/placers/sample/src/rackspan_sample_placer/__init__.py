"""A third-party placer: every partition on the brokers with the highest ids, or where Kafka chooses."""

from rackspan.core.placement import ClusterView, InfeasibleError, Placement, PlacementSpec


class Widest:
    """Puts every partition on the brokers with the highest ids, and defers to Kafka for a single replica."""

    def place(self, spec: PlacementSpec, cluster: ClusterView) -> Placement | None:
        if spec.replication_factor == 1:
            return None
        usable = sorted((b.id for b in cluster.tree.brokers if b.eligible and b.online), reverse=True)
        if len(usable) < spec.replication_factor:
            raise InfeasibleError("too few brokers", "add some")
        row = tuple(usable[: spec.replication_factor])
        return Placement([*spec.current, *[row] * (spec.partitions - len(spec.current))])
