"""SQL queries over a history, run by DataFusion, the engine of the Delta library.

Each table of the history has a view with the rows of committed scans, and the time of their scan. Two column names are
reserved words in SQL: `cluster` is `cluster_name` in the views, and `group` is `consumer_group`. The files in `views/`
answer common questions with these views. Other engines can run the files as well.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import pyarrow as pa
from deltalake import QueryBuilder

from rackspan.jobs.batches.schemas import ABOUT, TABLES
from rackspan.jobs.history.delta_tables import DeltaTables, HistoryError, one_line

AGE: Final = "age_minutes"
_RENAMED: Final = {"group": "consumer_group"}
_COMMENT: Final = re.compile(r"--[^\n]*")
_FIRST_WORD: Final = re.compile(r"[\s(]*([a-z]+)", re.IGNORECASE)
_QUERIES: Final = frozenset({"select", "with", "values", "describe"})


@dataclass(frozen=True, slots=True)
class View:
    """A view that answers a common question. `about` describes the view, `query` is its SQL."""

    name: str
    about: str
    query: str


@cache
def views() -> tuple[View, ...]:
    """Return the views in `views/`, sorted by name."""
    folder = files("rackspan.jobs.history").joinpath("views")
    texts = {file.name.removesuffix(".sql"): file.read_text() for file in folder.iterdir()}
    heads = {name: text.split("\n", 1)[0].removeprefix("-- ") for name, text in texts.items()}
    return tuple(View(name, heads[name], texts[name]) for name in sorted(texts))


def table_view(name: str, kept: Collection[str], age: str) -> str:
    """Return the query of a table's view, over the stored tables, which are named `kept_…`.

    `kept` are the columns that the stored table has. A column that it does not have yet is null. `age` is the engine's
    expression for the minutes from `r.first_seen` to `s.finished_at`.
    """
    columns = [f"{_quoted(one) if one in kept else 'NULL'} AS {_RENAMED.get(one, one)}" for one in TABLES[name].names]
    if name == "scans":
        return f"SELECT r.cluster AS cluster_name, {', '.join(columns)} FROM kept_scans r"  # noqa: S608 - declared columns
    columns += [f"{age} AS {AGE}"] if name == "findings" else []
    same = " AND ".join(f"r.{one} = s.{one}" for one in ("cluster", "attempt", "scan_id"))
    listed = ", ".join(["r.cluster AS cluster_name", "s.finished_at", *columns])
    return f"SELECT {listed} FROM kept_{name} r JOIN kept_scans s ON {same}"  # noqa: S608 - declared columns


def query(location: str, sql: str) -> pa.Table:
    """Return the rows of a query over the history at `location`.

    Raises HistoryError if the history cannot be read or has no scans, or if `sql` is not a query or fails.
    """
    word = _FIRST_WORD.match(_COMMENT.sub("", sql))
    if word is None or word[1].lower() not in _QUERIES:
        raise HistoryError("only queries can be run: begin with SELECT or WITH")
    tables, engine = DeltaTables(location), QueryBuilder()
    scans = tables.opened("scans")
    if scans is None:
        raise HistoryError(f"{tables.location}: holds no scans: rackspan scan --history writes them")
    for name in TABLES:
        table = scans if name == "scans" else tables.existing(name)
        tables.check_files(table, name)
        engine.register(f"kept_{name}", table)
        kept = [field.name for field in table.schema().fields]
        age = "(date_part('epoch', s.finished_at) - date_part('epoch', r.first_seen)) / 60"
        engine.execute(f"CREATE VIEW {name} AS {table_view(name, kept, age)}")
    for view in views():
        engine.execute(f"CREATE VIEW {view.name} AS {view.query}")
    try:
        answer = pa.table(engine.execute(sql).read_all())
    except Exception as error:  # the engine has no error type of its own
        raise HistoryError(f"the query cannot be answered: {one_line(error)}") from error
    return answer.cast(pa.schema([_plain(field) for field in answer.schema]))


def described() -> tuple[tuple[str, str], ...]:
    """Return the names and descriptions of all views: first those of tables, then those in `views/`."""
    return (*((name, ABOUT[name]) for name in TABLES), *((view.name, view.about) for view in views()))


def _plain(field: pa.Field) -> pa.Field:
    """Return the field as a plain string if it is a string view, which Parquet and its readers may not support."""
    return field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field


def _quoted(column: str) -> str:
    return f'r."{column}"' if column in _RENAMED else f"r.{column}"
