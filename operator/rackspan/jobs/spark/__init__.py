"""Code that needs Spark: its session, the engine that judges a cluster on its workers, and its errors as sentences."""
