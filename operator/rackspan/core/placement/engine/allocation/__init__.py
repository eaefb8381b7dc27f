"""New partitions: how many replicas each broker gets (quotas), and of which partitions (wrap-around)."""
