"""docs/reference/bad-input.md as data. Tests compare their output with the page."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dev.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "bad-input.md"
_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `test` is a pytest node id. `says` is a condition such as `Stalled UnknownLevel`, or a status code."""

    what: str
    refused_by: str
    says: str
    sentence: str
    next_step: str
    test: str

    def fits(self, printed: str) -> bool:
        """Return whether `printed` matches the sentence of the row, in which `<words>` are placeholders."""
        parts = re.split(r"<[^<>]+>", self.sentence)
        return re.fullmatch(".+?".join(map(re.escape, parts)), printed, re.DOTALL) is not None


def rows(page: Path = PAGE) -> Iterator[Row]:
    """Yield every row of every table of the page."""
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == _COLUMNS and "::" in cells[-1]:
            what, refused_by, says, sentence, next_step, test = cells
            yield Row(what, refused_by, says.replace("`", ""), sentence.strip("`"), next_step, test.strip("`"))


@dataclass(frozen=True, slots=True)
class Promise:
    """The rows of the page for one test."""

    test: str

    def kept_by(self, obj: dict, type_: str = "Stalled") -> None:
        """Fail unless a row has exactly the condition of this type of the object."""
        found = next(item for item in obj["status"]["conditions"] if item["type"] == type_)
        self.prints(f"{type_} {found['reason']}", found["message"])

    def is_kept_by(self, obj: dict, type_: str = "Stalled") -> bool:
        """Return whether a row has exactly the condition of this type of the object."""
        conditions = obj["status"]["conditions"]
        return any(
            self._has(f"{type_} {item['reason']}", item["message"]) for item in conditions if item["type"] == type_
        )

    def prints(self, says: str, printed: str) -> None:
        """Fail unless a row has these words."""
        assert self._has(says, printed), (
            f"docs/reference/bad-input.md does not have what was printed.\n  test:    {self.test}\n  says:    {says}\n"
            f"  printed: {printed}\n  rows:    {[(row.says, row.sentence) for row in self._rows()]}"
        )

    def _has(self, says: str, printed: str) -> bool:
        return any(row.says == says and row.fits(printed) for row in self._rows())

    def _rows(self) -> list[Row]:
        return [row for row in rows() if row.test == self.test]
