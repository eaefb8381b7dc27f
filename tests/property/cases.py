"""The number of cases that each property test has checked."""

from collections import Counter

COUNTED: Counter[str] = Counter()
current = ""


def counted(cases=1):
    """Count cases of the test that is running."""
    COUNTED[current] += cases
