"""`rackspan history`: the tables that scans leave behind."""

import sys

from rackspan.cli.rendering.output_formats import RowsFormat
from rackspan.cli.rendering.query_rows import UnprintableError, print_rows
from rackspan.cli.rendering.stderr_lines import note
from rackspan.cli.rendering.tables import console, table
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.kept_scans import scan_packages


def sql(*, location: str, query: str, output: RowsFormat) -> None:
    """Carry out `rackspan history sql` with these options. Raises CommandError."""
    if output is RowsFormat.PARQUET and sys.stdout.isatty():
        raise CommandError("Parquet is not for a terminal", "write it to a file: > rows.parquet")
    with scan_packages():
        from rackspan.jobs.history.queries import query as answered  # noqa: PLC0415 - needs pyarrow

        rows = answered(location, query)
    try:
        print_rows(rows, output)
    except UnprintableError as error:
        raise CommandError(str(error), error.hint) from error


def views() -> None:
    """Carry out `rackspan history views` with these options. Raises CommandError."""
    with scan_packages():
        from rackspan.jobs.history.queries import described  # noqa: PLC0415 - needs pyarrow

        rows = described()
    listed = table("VIEW", "HOLDS")
    for name, about in rows:
        listed.add_row(name, about)
    console().print(listed)


def migrate(*, old: str, new: str) -> None:
    """Carry out `rackspan history migrate` with these options. Raises CommandError."""
    with scan_packages():
        from rackspan.jobs.history.migration import migrate as copied  # noqa: PLC0415 - needs pyarrow
        from rackspan.jobs.history.scan_history import History  # noqa: PLC0415

        number = copied(old, History(new), note)
    print(f"scans copied: {number}")
