"""Generate the tables of README.md."""

from benchmarks.results import PAGE, with_tables

PAGE.write_text(with_tables(PAGE.read_text()))
