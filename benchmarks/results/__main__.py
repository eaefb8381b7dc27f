"""Writes the tables of docs/benchmarks.md anew."""

from benchmarks.results import DOCS, with_tables

DOCS.write_text(with_tables(DOCS.read_text()))
