"""Arrow tables: their columns, conversion from and to the core, judging, and sums. Does not need Spark."""
