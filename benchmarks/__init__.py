"""Benchmarks. Each one prints medians, and those of comparable programs from the same run."""
