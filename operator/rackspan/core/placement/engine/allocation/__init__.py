"""New partitions: how many replicas each broker gets (quotas), and which partitions these belong to (wrap-around)."""
