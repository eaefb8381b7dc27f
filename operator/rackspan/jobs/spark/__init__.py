"""What is Spark's alone: its session, a cluster judged by its workers, and its errors in a sentence."""
