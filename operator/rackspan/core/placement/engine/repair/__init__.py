"""Partitions that are not what they should be: the nearest placement that is, at the fewest moves."""
