"""Writes the tables of README.md anew."""

from benchmarks.results import PAGE, with_tables

PAGE.write_text(with_tables(PAGE.read_text()))
