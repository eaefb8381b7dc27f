"""The rows of a query, for people, for programs and for spreadsheets."""

import csv
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from rackspan.api.codec import timestamp
from rackspan.cli.rendering.printed_documents import Format, print_document, printed_json
from rackspan.cli.rendering.tables import console, table

if TYPE_CHECKING:
    import pyarrow as pa

_DECIMALS = 3


class RowsFormat(StrEnum):
    """The formats of rows."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def print_rows(rows: "pa.Table", form: RowsFormat) -> None:
    """Print rows on standard output. Raises ValueError for rows that Parquet cannot hold."""
    if form is RowsFormat.PARQUET:
        _print_parquet(rows)
    elif form is RowsFormat.JSON:
        print_document({"rows": _values(rows)}, Format.JSON)
    elif form is RowsFormat.CSV:
        written = csv.writer(sys.stdout, lineterminator="\n")
        written.writerow(map(printed_json, rows.column_names))
        written.writerows(map(_cells, _values(rows)))
    else:
        _print_table(rows.column_names, _values(rows))


def _values(rows: "pa.Table") -> list[dict[str, Any]]:
    """Rows as Python has them: times to the microsecond, in UTC where they name no zone, as DataFusion reads them."""
    import pyarrow as pa  # noqa: PLC0415 - only those who keep scans have it

    def of_python(type_: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(type_):
            return pa.timestamp("us" if type_.unit == "ns" else type_.unit, type_.tz or "UTC")
        return pa.duration("us") if pa.types.is_duration(type_) and type_.unit == "ns" else type_

    held = pa.schema([field.with_type(of_python(field.type)) for field in rows.schema])
    values: list[dict[str, Any]] = rows.cast(held, safe=False).to_pylist()  # safe refuses to cut nanoseconds
    return values


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
    return value if isinstance(value, int) else printed_json(str(value))


def _print_parquet(rows: "pa.Table") -> None:
    import pyarrow as pa  # noqa: PLC0415 - only those who keep scans have it
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        pq.write_table(rows, pa.PythonFile(sys.stdout.buffer, mode="w"))
    except pa.ArrowException as error:
        raise ValueError(f"the rows cannot be written as Parquet: {error}") from error
