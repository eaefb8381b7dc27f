"""The kills of a fault run: their number, their steps, and the table of the results."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

ELECTED = "leader election"
"""The last step of a plan, if it happens. Random steps would rarely hit it."""
_AT_ANY_MOMENT = 0.2


@dataclass(frozen=True, slots=True)
class Fate:
    """How a process is killed: after some seconds, at a step, or not at all.

    Steps count from 0, one before and one after each call. With `of`, only steps with this name count.
    """

    step: int | None = None
    of: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Kills:
    """The number of kills, and the minutes after which they end. `first` is the step of the first kill."""

    kills: int
    minutes: float
    first: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def fates(self, steps: int, seconds: float) -> Iterator[Fate]:
        """Yield fates for ever: all `steps` in turn, every fourth an election, and a fifth of all at a random time.

        `seconds` is the maximum time of a fate at a random time.
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
    """Return the kills as a Markdown table, by the step before or after which a process was killed."""
    steps = sorted({point.partition(" ")[2] for point in kills if not point.startswith("at ")})
    lines = [f"| {step} | {kills[f'before {step}']} | {kills[f'after {step}']} |" for step in steps]
    other = [f"| {point.removeprefix('at ')} | {kills[point]} | |" for point in kills if point.startswith("at ")]
    return "\n".join(("| killed | before | after |", "|---|---:|---:|", *lines, *other))
