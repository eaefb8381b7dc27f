"""The placement engine: one function over matrices of partitions and replicas, one pass per level of the tree."""
