"""The scan of one cluster, from its first read to its document."""
