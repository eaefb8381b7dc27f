"""Results as tables and lines on standard output, for people."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from rackspan.core.text import plural, shown

_UNLIMITED = 1 << 20
_BREAKS = re.compile(r"(?<=[.]) ?| ")


class _Screen(Console):
    def render_str(self, text: str, **style: Any) -> Text:
        """Escape the text of cells and lines, because much of it comes from clusters, files and arguments."""
        return super().render_str(shown(text), **style)


def console() -> Console:
    """Return a console for standard output. Without a terminal its width is unlimited, so that each row is one line."""
    screen = _Screen(highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        screen.width = _UNLIMITED
    return screen


class _Table(Table):
    """A table that fits the terminal. Nothing is cut off, and headings of numbers wrap before texts do."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width < _UNLIMITED and self._width(console, options) > options.max_width:
            for column in self.columns:
                if column.no_wrap:
                    column.header = Text(_BREAKS.sub("\n", shown(str(column.header))))
                    column.no_wrap = False
        made = super().__rich_console__(console, options)
        yield from made if options.max_width < _UNLIMITED else _without_padding(cast("Iterable[Segment]", made))

    def _width(self, console: Console, options: ConsoleOptions) -> int:
        return console.measure(self, options=options.update(max_width=_UNLIMITED)).maximum


def _without_padding(made: Iterable[Segment]) -> Iterator[Segment]:
    """Strip trailing spaces of each line, because with one long line, a pager shows blank lines after all others."""
    for line in Segment.split_lines(made):
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
        yield from (*line, Segment.line())


def table(*headings: str) -> Table:
    """Return a table. A heading that begins with `#` makes a column of numbers, aligned to the right."""
    made = _Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in headings:
        name = heading.removeprefix("#")
        number = heading != name
        made.add_column(name, justify="right" if number else "left", no_wrap=number, overflow="fold")
    return made


def count(number: int, style: str = "") -> Text:
    """Return a number with separators, in `style`, or dim if it is zero."""
    return Text(f"{number:,}", style=style if number else "dim")


def span(least: int, most: int) -> str:
    """Return a text such as `3 to 7`, or `3` if both are equal."""
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def print_hidden(screen: Console, hidden: int, noun: str, where: str = "--all prints {them}") -> None:
    """Print how many rows a table leaves out, and `where` to find {them}. Print nothing if none are."""
    if hidden > 0:
        screen.print(f"… and {plural(hidden, noun)} ({where.format(them='it' if hidden == 1 else 'them')})")
