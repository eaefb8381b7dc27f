"""Tables of text output: no cell is cut off, neither on a narrow terminal nor in a file."""

import io
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.property.cases import counted

from rackspan.cli.rendering.tables import console, table

WORDS = st.text("abcdefgh-./_", min_size=1, max_size=12)
NAMES = st.one_of(WORDS, st.text("abcdefgh-._", min_size=200, max_size=249))
NUMBERS = st.integers(0, 10**9).map(lambda number: f"{number:,}")
SENTENCES = st.lists(WORDS, min_size=1, max_size=60).map(" ".join)


def letters(texts):
    return Counter("".join(texts).replace(" ", ""))


@st.composite
def filled(draw):
    """Draw a table of texts and numbers, with its headings and rows."""
    made = draw(st.lists(st.tuples(st.sampled_from([NAMES, NUMBERS, SENTENCES]), SENTENCES), min_size=1, max_size=6))
    headings = [f"#{heading[:20]}" if kind is NUMBERS else heading[:20] for kind, heading in made]
    shown = table(*headings)
    rows = draw(st.lists(st.tuples(*(kind for kind, _ in made)), min_size=1, max_size=4))
    for row in rows:
        shown.add_row(*row)
    return shown, [heading.removeprefix("#") for heading in headings], rows


@given(filled(), st.integers(80, 200))
def test_terminal_shows_every_cell_and_heading_completely(case, width):
    shown, headings, rows = case
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False, emoji=False).print(shown)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    printed, written = (line for line in lines if "─" not in line), (one for row in (headings, *rows) for one in row)
    assert letters(printed) == letters(written)
    counted()


@given(filled())
def test_file_has_one_line_for_each_row(case):
    shown, headings, rows = case
    screen = console()
    with screen.capture() as captured:
        screen.print(shown)
    lines = [line for line in captured.get().splitlines() if line.strip() and "─" not in line]
    assert [line.split() for line in lines] == [" ".join(row).split() for row in [headings, *rows]]
    counted()
