"""Results as JSON, one file per benchmark, machine and day, and the tables of README.md that are generated from them.

`python -m benchmarks.results` generates the tables of README.md, each between two marks:

    <!-- table: topics -->
    <!-- end of table -->
"""

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from benchmarks import machine
from benchmarks.machine import Conditions

FOLDER = Path(__file__).parent
PAGE = FOLDER / "README.md"
_MARKED = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Result:
    """The table of one benchmark. `formats` has the number format of each column, such as `.1f` or `,d`."""

    benchmark: str
    machine: str
    measured: date
    columns: Sequence[str]
    formats: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    conditions: Sequence[Conditions]
    """The conditions of each row."""

    @property
    def quiet(self) -> bool:
        """Whether the machine was quiet in all rows."""
        return all(each.quiet for each in self.conditions)

    def table(self) -> str:
        """Return the table as Markdown. Each row ends with the load, the steal time, and the CPU of other processes."""
        columns = (*self.columns, "load before", "stolen", "others")
        lines = [f"| {' | '.join(columns)} |", f"| --- |{' ---: |' * (len(columns) - 1)}"]
        for row, seen in zip(self.rows, self.conditions, strict=True):
            cells = [_written(cell, form) for cell, form in zip(row, self.formats, strict=True)]
            cells += [f"{seen.load:.1f}", f"{seen.stolen:.0%}", "" if seen.others is None else f"{seen.others:.0%}"]
            lines.append(f"| {' | '.join(cells)} |")
        told = "the machine was quiet" if self.quiet else "**the machine was not quiet: do not use these figures**"
        return "\n".join((*lines, "", f"{self.measured}, {self.machine}; {told}.", ""))


def new(
    benchmark: str,
    columns: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[Cell]],
    conditions: Sequence[Conditions],
) -> Result:
    """Return a result of this machine and of today. `columns` are pairs of name and format."""
    names, formats = zip(*columns, strict=True)
    return Result(benchmark, machine.name(), datetime.now(UTC).date(), names, formats, rows, conditions)


def save(result: Result, folder: Path = FOLDER) -> Path:
    """Write a result to the file of its benchmark, machine and day."""
    path = folder / f"{result.benchmark}-{result.machine}-{result.measured}.json"
    document = dataclasses.asdict(result) | {"measured": str(result.measured), "quiet": result.quiet}
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def load(path: Path) -> Result:
    """Read a result."""
    document = json.loads(path.read_text())
    del document["quiet"]
    document["measured"] = date.fromisoformat(document["measured"])
    document["conditions"] = [Conditions(**each) for each in document["conditions"]]
    return Result(**document)


def latest(benchmark: str, folder: Path = FOLDER) -> Result:
    """Return the newest result of a quiet machine, else the newest one. Raises ValueError if there is none."""
    found = [result for path in folder.glob("*.json") if (result := load(path)).benchmark == benchmark]
    return max(found, key=lambda result: (result.quiet, result.measured, result.machine))


def with_tables(text: str, folder: Path = FOLDER) -> str:
    """Return the text with its marked tables generated again."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{latest(found[2], folder).table()}\n{found[3]}", text)


def _written(cell: Cell, form: str) -> str:
    return "" if cell is None else format(cell, form)
