"""The placement engine: one function over matrices of partitions × replicas, one pass per level of the tree."""
