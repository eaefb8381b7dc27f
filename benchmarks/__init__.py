"""Figures: each benchmark prints medians, and its peers from the same run."""
