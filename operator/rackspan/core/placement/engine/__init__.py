"""
The placement engine: one function over matrices of partitions and replicas, one pass per level of the tree.

- `allocation`: new partitions. Quotas per broker, and from these replicas per partition
- `repair`: partitions that are not what they should be, with the fewest moves
- `balance`: even loads. Which replica, and which leader, could as well be elsewhere
- `loads`, `tasks`, `weighted_choice`: what all three use

Positions are those of brokers in depth-first order (int64), -1 for none or beyond the end of a shorter row.
"""
