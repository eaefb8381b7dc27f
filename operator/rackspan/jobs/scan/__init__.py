"""The scan of one cluster, from the first read to the scan document."""
