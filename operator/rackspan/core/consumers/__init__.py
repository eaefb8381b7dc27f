"""Consumer groups: how many partitions they read in their own domain, and how many another assignment could reach."""
