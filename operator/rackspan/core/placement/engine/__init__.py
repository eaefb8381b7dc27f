"""The placement engine: functions over matrices of partitions and replicas, with one pass per level of the tree.

- `allocation`: new partitions. Quotas per broker, and from the quotas the replicas of each partition
- `repair`: partitions that do not meet their requirements, with the fewest moves
- `balance`: even loads. Which replicas and leaders can change brokers
- `loads`, `tasks`, `weighted_choice`: shared by the three packages

A position is the index of a broker in depth-first order (int64). -1 means no broker, or pads a shorter row.
"""
