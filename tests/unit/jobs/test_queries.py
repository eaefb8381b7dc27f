"""SQL over the history: rows of committed scans, views, and errors for bad input."""

import csv
import io
import json
import re
import shutil
import time
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dev.paths import REPOSITORY
from tests.support.command import cli
from tests.unit.jobs.tables import NOON, committed, contents, written
from typer.testing import CliRunner

from rackspan.cli import app
from rackspan.jobs.batches.schemas import KEPT, TABLES
from rackspan.jobs.history.queries import described, query, views
from rackspan.jobs.history.scan_history import History, HistoryError


@pytest.fixture(scope="module")
def _four_scans(tmp_path_factory):
    made = History(str(tmp_path_factory.mktemp("four") / "history"))
    for number, scan in enumerate("abc"):
        committed(made, scan, when=NOON + timedelta(hours=number))
    committed(made, "a", cluster="shop/other")
    return made.location


@pytest.fixture
def history(_four_scans, tmp_path):
    """Four scans of two clusters. Each test gets a copy, because writing them takes a third of a second."""
    return History(shutil.copytree(_four_scans, str(tmp_path / "history")))


@pytest.mark.parametrize("table", TABLES)
def test_table_view_has_only_the_rows_of_committed_scans(history, table):
    written(history, "killed")
    wanted = {cluster: contents(history, cluster)[table] for cluster in history.clusters()}
    found = query(history.location, f"SELECT * FROM {table}").to_pylist()
    assert {cluster: sum(row["cluster_name"] == cluster for row in found) for cluster in wanted} == {
        cluster: len(rows) for cluster, rows in wanted.items()
    }
    assert {row["scan_id"] for row in found} == {"a", "b", "c"}
    assert {row["finished_at"] for row in found if row["scan_id"] == "b"} == {NOON + timedelta(hours=1)}


def test_column_that_an_older_table_lacks_is_null(tmp_path):
    old = History(str(tmp_path / "old"))
    with pytest.MonkeyPatch.context() as before:
        before.setitem(KEPT, "topics", pa.schema([field for field in KEPT["topics"] if field.name != "moves"]))
        committed(old, "a")
    assert query(old.location, "SELECT moves, findings FROM topics").to_pylist()[1] == {"moves": None, "findings": 1}


def test_every_view_has_a_description_and_can_be_queried(history):
    assert [name for name, about in described() if not about] == []
    for view in views():
        assert query(history.location, f"SELECT * FROM {view.name}").column_names[0] == "cluster_name"


@pytest.mark.parametrize(
    "sql",
    [
        "DROP VIEW scans",
        "INSERT INTO kept_scans SELECT * FROM kept_scans",
        "WITH x AS (SELECT 1) INSERT INTO kept_scans SELECT * FROM kept_scans",
        " -- SELECT\nDELETE FROM kept_scans",
        "COPY scans TO 'scans.csv'",
        "EXPLAIN ANALYZE COPY scans TO 'scans.csv'",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        "SELECT 1; DELETE FROM kept_scans",
        "(" * 100_000,
        "",
    ],
)
def test_statement_that_is_not_a_query_is_rejected_and_changes_nothing(history, tmp_path, monkeypatch, sql):
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    ran = cli("history", "sql", history.location, sql)
    assert ran.code == 2
    assert ran.err.startswith(("error: only queries can be run", "error: the query cannot be answered"))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("SELECT nope FROM scans", "No field named nope"),
        ("SELECT * FROM nope", "table 'datafusion.public.nope' not found"),
        ("SELECT 1/0", "Divide by zero"),
        ("SELECT FROM FROM", "cannot be answered"),
        ("SELECT * FROM '/etc/passwd'", "not found"),
    ],
)
def test_invalid_query_fails_with_a_one_line_error(history, sql, sentence):
    ran = cli("history", "sql", history.location, sql)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert len(ran.err.splitlines()) == 1


def test_unreadable_history_is_an_error_and_not_an_empty_result(history, tmp_path):
    ran = cli("history", "sql", tmp_path / "nothing", "SELECT 1")
    assert (ran.code, "holds no scans" in ran.err) == (2, True)
    file = next((tmp_path / "history" / "findings").glob("cluster=*/month=*/*.parquet"))
    file.write_bytes(b"")
    with pytest.raises(HistoryError, match=f"{file.name}: has 0 bytes"):
        query(history.location, "SELECT count(*) FROM scans")


SQL = (
    "SELECT s.cluster_name, s.finished_at, s.sequence, 0.5 AS half, s.moves AS nothing, s.sequence > 1 AS later,"
    " 'a\u009b\"b' AS odd FROM scans s WHERE s.cluster_name = 'prod' ORDER BY s.sequence LIMIT 2"
)


def test_rows_are_printed_as_table_json_and_csv(history, tmp_path):
    forms = ("table", "json", "csv")
    as_table, as_json, as_csv = (cli("history", "sql", history.location, SQL, "-o", form) for form in forms)
    assert [ran.code for ran in (as_table, as_json, as_csv)] == [0, 0, 0]
    first = json.loads(as_json.out)["rows"][0]
    assert first == {
        "cluster_name": "prod",
        "finished_at": "2026-03-10T12:00:00Z",
        "sequence": 1,
        "half": 0.5,
        "nothing": None,
        "later": False,
        "odd": 'a\u009b"b',
    }
    cells = ["prod", "2026-03-10T12:00:00Z", "1", "0.5", "", "false", 'a\\u009b"b']
    assert list(csv.reader(io.StringIO(as_csv.out)))[:2] == [list(first), cells]
    assert as_table.out.split("\n")[1].split() == list(first)
    assert "\u009b" not in as_table.out + as_csv.out + as_json.out


def test_rows_are_written_as_parquet(history, tmp_path):
    ran = CliRunner().invoke(app, ["history", "sql", history.location, SQL, "-o", "parquet"])
    (tmp_path / "rows.parquet").write_bytes(ran.stdout_bytes)
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist()[1]["sequence"] == 2


def test_nothing_is_written_if_parquet_cannot_hold_a_value(history):
    sql = "SELECT 1 AS one, arrow_cast(9223372036854775807, 'Timestamp(Second, None)') AS far"
    ran = CliRunner().invoke(app, ["history", "sql", history.location, sql, "-o", "parquet"])
    assert (ran.exit_code, ran.stdout_bytes) == (2, b"")
    assert ran.stderr.startswith("error: the rows cannot be written as Parquet: ")


def test_history_views_lists_every_view():
    ran = cli("history", "views")
    assert ran.code == 0
    listed = [line.split()[0] for line in ran.out.splitlines() if line.strip()]
    assert [name for name in listed if name.islower()] == [name for name, _ in described()]


def _documented():
    text = (REPOSITORY / "docs" / "scans.md").read_text().split("### Questions")[1].split("\n### ")[0]
    return re.findall(r"`(SELECT [^`]+)`", text) + re.findall(r'rackspan history sql \S+ "([^"]+)"', text)


@pytest.mark.parametrize("sql", _documented())
def test_every_documented_query_runs(history, sql):
    query(history.location, sql)


def test_documentation_has_a_query_of_every_view():
    assert {view.name for view in views()} == {name for sql in _documented() for name in re.findall(r"FROM (\w+)", sql)}


MOMENT = "arrow_cast('2026-01-02T03:04:05.678901234', 'Timestamp(Nanosecond, None)')"


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("json", '{"moment":"2026-01-02T03:04:05.678901Z","took":"PT0.000005S"}'),
        ("csv", "2026-01-02T03:04:05Z,0:00:00.000005"),
        ("table", "2026-01-02T03:04:05Z"),
    ],
)
def test_nanosecond_times_are_printed_like_other_times(history, monkeypatch, zone, form, printed):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    sql = f"SELECT {MOMENT} AS moment, arrow_cast(5678, 'Duration(Nanosecond)') AS took"
    ran = cli("history", "sql", history.location, sql, "-o", form)
    monkeypatch.undo()
    time.tzset()
    assert ran.code == 0, ran.err
    assert printed in ran.out


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (f"make_array({MOMENT}, NULL)", '["2026-01-02T03:04:05.678901Z",null]'),
        (f"named_struct('at', {MOMENT})", '{"at":"2026-01-02T03:04:05.678901Z"}'),
        (f"make_array(named_struct('at', {MOMENT}))", '[{"at":"2026-01-02T03:04:05.678901Z"}]'),
        (f"map(['at'], [{MOMENT}])", '[["at","2026-01-02T03:04:05.678901Z"]]'),
        ("make_array(arrow_cast(5678, 'Duration(Nanosecond)'))", '["PT0.000005S"]'),
        (
            f"arrow_cast(make_array({MOMENT}), 'LargeList(Timestamp(Nanosecond, None))')",
            '["2026-01-02T03:04:05.678901Z"]',
        ),
        (f"arrow_cast({MOMENT}, 'Dictionary(Int32, Timestamp(Nanosecond, None))')", '"2026-01-02T03:04:05.678901Z"'),
    ],
)
def test_times_in_nested_values_are_printed_like_other_times(history, value, printed):
    sql = f"SELECT {value} AS odd"
    ran = cli("history", "sql", history.location, sql, "-o", "json")
    assert (ran.code, ran.out) == (0, f'{{"rows": [\n  {{"odd":{printed}}}\n ]}}\n')
    if printed[0] in "[{":  # the cell of a table or of CSV has JSON, too
        (row,) = csv.DictReader(io.StringIO(cli("history", "sql", history.location, sql, "-o", "csv").out))
        assert row == {"odd": printed}
        assert printed in cli("history", "sql", history.location, sql).out


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize(
    "value",
    [
        "to_timestamp_seconds(253402300800)",
        "to_timestamp_seconds(-99999999999)",
        "make_array(to_timestamp_seconds(253402300800))",
        "arrow_cast(99999999, 'Date32')",
        "arrow_cast(9223372036854775807, 'Duration(Second)')",
        "arrow_cast(0, 'Timestamp(Second, Some(\"Nowhere/X\"))')",
        f"arrow_cast(make_array({MOMENT}), 'ListView(Timestamp(Nanosecond, None))')",
    ],
)
def test_unprintable_time_is_an_error_before_any_output(history, form, value):
    ran = cli("history", "sql", history.location, f"SELECT 1 AS one, {value} AS far", "-o", form)
    assert (ran.code, ran.out, ran.hint) == (2, "", "-o parquet holds it")
    assert ran.error.startswith('column "far" holds a time that cannot be printed: ')
    rows = CliRunner().invoke(app, ["history", "sql", history.location, f"SELECT {value} AS far", "-o", "parquet"])
    assert rows.exit_code == 0
    assert pq.read_table(io.BytesIO(rows.stdout_bytes)).num_rows == 1
