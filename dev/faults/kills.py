"""How many kills a fault run wants, where they hit, and the table of those that it had."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

ELECTED = "a leader elected"
"""The step that comes last in a plan, if it comes at all: among all steps it would hardly ever be hit."""
_AT_ANY_MOMENT = 0.2


@dataclass(frozen=True, slots=True)
class Fate:
    """How a process ends: after some seconds, at a step, or not at all.

    Steps are counted from 0 on, before and after a call each; with `of` only those of this name.
    """

    step: int | None = None
    of: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Kills:
    """Kills that are wanted, for no longer than so many minutes; `first` is the number of the step of the first one."""

    kills: int
    minutes: float
    first: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def fates(self, steps: int, seconds: float) -> Iterator[Fate]:
        """Fates without end: each of so many steps in turn, each fourth an election, and a fifth of all at any moment.

        `seconds` is how long one that ends at any moment may last.
        """
        numbers, elections = itertools.count(self.first), itertools.cycle((0, 1))
        for turn in itertools.count():
            if self.chance.random() < _AT_ANY_MOMENT:
                yield Fate(seconds=self.chance.uniform(0, seconds))
            elif turn % 4 == 3:
                yield Fate(next(elections), ELECTED)
            else:
                yield Fate(next(numbers) % steps)


def table(kills: Counter[str]) -> str:
    """As Markdown: by the step that a process was killed before or after."""
    steps = sorted({point.partition(" ")[2] for point in kills if not point.startswith("at ")})
    lines = [f"| {step} | {kills[f'before {step}']} | {kills[f'after {step}']} |" for step in steps]
    other = [f"| {point.removeprefix('at ')} | {kills[point]} | |" for point in kills if point.startswith("at ")]
    return "\n".join(("| killed | before | after |", "|---|---:|---:|", *lines, *other))
