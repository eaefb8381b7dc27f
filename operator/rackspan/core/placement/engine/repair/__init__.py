"""Repair of partitions that do not meet their requirements: the closest placement that does, with the fewest moves."""
