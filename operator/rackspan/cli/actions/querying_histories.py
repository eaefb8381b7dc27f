"""`rackspan history`: the tables that scans write."""

import csv
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rackspan.api.codec import timestamp
from rackspan.cli.rendering.output_formats import Format, RowsFormat
from rackspan.cli.rendering.printed_documents import json_text, print_document, printed_json
from rackspan.cli.rendering.stderr_lines import note
from rackspan.cli.rendering.tables import console, table
from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.kept_scans import scan_packages

if TYPE_CHECKING:
    import pyarrow as pa

_DECIMALS = 3


def sql(*, location: str, query: str, output: RowsFormat) -> None:
    """Carry out `rackspan history sql` with these options. Raises CommandError."""
    if output is RowsFormat.PARQUET and sys.stdout.isatty():
        raise CommandError("Parquet is not for a terminal", "write it to a file: > rows.parquet")
    with scan_packages():
        from rackspan.jobs.history.queries import query as answered  # noqa: PLC0415 - needs pyarrow

        rows = answered(location, query)
    _print_rows(rows, output)


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


def _print_rows(rows: "pa.Table", form: RowsFormat) -> None:
    """Print rows on standard output. Raises CommandError if the format cannot hold them."""
    if form is RowsFormat.PARQUET:
        _print_parquet(rows)
        return
    values = _values(rows)
    if form is RowsFormat.JSON:
        print_document({"rows": values}, Format.JSON)
    elif form is RowsFormat.CSV:
        written = csv.writer(sys.stdout, lineterminator="\n")
        written.writerow(map(printed_json, rows.column_names))
        written.writerows(map(_cells, values))
    else:
        _print_table(rows.column_names, values)


def _values(rows: "pa.Table") -> list[dict[str, Any]]:
    """Return rows as Python values. Times have microseconds; those without a zone are in UTC, as in DataFusion."""
    columns: dict[str, list[Any]] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            columns[name] = column.cast(_of_python(column.type), safe=False).to_pylist()  # safe refuses nanoseconds
        except (OverflowError, LookupError, NotImplementedError) as error:  # a year, a zone or a list that Python lacks
            what = f'column "{name}" holds a time that cannot be printed: {error}'
            raise CommandError(what, "-o parquet holds it") from error
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _of_python(type_: "pa.DataType") -> "pa.DataType":
    """Return the same type without nanoseconds, which Python's times do not have."""
    import pyarrow as pa  # noqa: PLC0415 - installed only with rackspan[scan]

    is_ = pa.types
    if is_.is_timestamp(type_):
        return pa.timestamp("us" if type_.unit == "ns" else type_.unit, type_.tz or "UTC")
    if is_.is_duration(type_) and type_.unit == "ns":
        return pa.duration("us")
    if is_.is_list(type_):
        return pa.list_(_of_python(type_.value_type))
    if is_.is_list_view(type_):
        return pa.list_view(_of_python(type_.value_type))
    if is_.is_large_list(type_):
        return pa.large_list(_of_python(type_.value_type))
    if is_.is_fixed_size_list(type_):
        return pa.list_(_of_python(type_.value_type), type_.list_size)
    if is_.is_map(type_):
        return pa.map_(_of_python(type_.key_type), _of_python(type_.item_type))
    if is_.is_struct(type_):
        return pa.struct([field.with_type(_of_python(field.type)) for field in type_])
    return _of_python(type_.value_type) if is_.is_dictionary(type_) else type_


def _print_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    numbers = {name for name in columns if rows and all(isinstance(row[name], int | float | None) for row in rows)}
    shown = table(*(f"#{name}" if name in numbers else name for name in columns))
    for row in rows:
        shown.add_row(*(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in _cells(row)))
    console().print(shown)


def _cells(row: Mapping[str, Any]) -> list[Any]:
    return [_cell(value) for value in row.values()]


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return timestamp(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return round(value, _DECIMALS)
    if isinstance(value, list | dict):
        return json_text(value)
    return value if isinstance(value, int) else printed_json(str(value))


def _print_parquet(rows: "pa.Table") -> None:
    import pyarrow as pa  # noqa: PLC0415 - installed only with rackspan[scan]
    import pyarrow.parquet as pq  # noqa: PLC0415

    whole = pa.BufferOutputStream()
    try:
        pq.write_table(rows, whole)
    except pa.ArrowException as error:
        raise CommandError(f"the rows cannot be written as Parquet: {error}", "-o json") from error
    sys.stdout.buffer.write(whole.getvalue())
