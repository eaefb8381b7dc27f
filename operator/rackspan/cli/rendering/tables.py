"""Results as tables and lines on standard output, for people."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rackspan.core.text import plural, shown
from rackspan.core.text import size as size_of

_PIPED_WIDTH = 160


class _Screen(Console):
    def render_str(self, text: str, **style: Any) -> Text:
        """Escape what is shown, in a cell as well as on a line: clusters, files and arguments choose much of it."""
        return super().render_str(shown(text), **style)

    def on_broken_pipe(self) -> None:
        """Leave it to the command's own handling, where rich would end the process with exit code 1."""
        raise BrokenPipeError


def console() -> Console:
    """Standard output; wide where it is no terminal, so that nothing is cut off in a file."""
    screen = _Screen(highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        screen.width = _PIPED_WIDTH
    return screen


def table(*headings: str) -> Table:
    """Make a table. A heading that begins with `#` makes a column of numbers, aligned to the right."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for heading in headings:
        name = heading.removeprefix("#")
        made.add_column(name, justify="right" if heading != name else "left", no_wrap=heading != name)
    return made


def count(number: int, style: str = "") -> Text:
    """Give a number with separators, in `style`; dim where it is zero."""
    return Text(f"{number:,}", style=style if number else "dim")


def size(number: int | None, unknown: str = "?") -> str:
    """Give a number of bytes for people; a table has no room for more than `?` where it is not known."""
    return size_of(number, unknown)


def print_hidden(screen: Console, hidden: int, noun: str, where: str = "--all prints them") -> None:
    """Print that a table leaves out so many of something, and `where` they are to be had; nothing for none."""
    if hidden > 0:
        screen.print(f"… and {plural(hidden, f'{noun}')} ({where})")
