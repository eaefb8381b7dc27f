"""What is Spark's alone: its session, its columns, the pure core over its batches, and its errors in a sentence."""
