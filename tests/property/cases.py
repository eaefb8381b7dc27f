"""How many cases each law was checked on."""

from collections import Counter

COUNTED: Counter[str] = Counter()
current = ""


def counted(cases=1):
    """Count cases of the test that is running."""
    COUNTED[current] += cases
