"""Other tools read a history of scans, with the exact programs of the documentation."""

import json
import os
import re
import subprocess
import sys

import pytest
from deltalake import DeltaTable
from dev.paths import REPOSITORY
from tests.scan.conftest import Scans
from tests.support.command import cluster, topic
from tests.unit.jobs.tables import written

from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.queries import query, table_view, views
from rackspan.jobs.history.scan_history import History
from rackspan.jobs.scan.engines import in_process

FAIR, UNFAIR = (0, 2, 3), (0, 1, 2)
SECTION = (REPOSITORY / "docs" / "reference" / "history.md").read_text().split("## Read them")[1]
PROGRAMS = dict(re.findall(r"```python\n# (\w+)\n(.*?)```", SECTION, re.DOTALL))
ROWS = {
    "pandas": "answer.values.tolist()",
    "Polars": "answer.rows()",
    "DuckDB": "answer.fetchall()",
    "Spark": "[list(row) for row in answer.collect()]",
}
"""The expression for the rows of `answer`, by tool."""
COUNTS = {
    "pandas": "len(DeltaTable(path).to_pandas())",
    "Polars": "pl.scan_delta(path).select(pl.len()).collect().item()",
    "DuckDB": "duckdb.from_arrow(DeltaTable(path).to_pyarrow_dataset()).count('*').fetchall()[0][0]",
    "Spark": "spark.createDataFrame(DeltaTable(path).to_pyarrow_table()).count()",
}
AGE = "(date_part('epoch', s.finished_at) - date_part('epoch', r.first_seen)) / 60"


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    """Write scans of two clusters over days, one compacted, and killed scans, one deleted. Return the location."""
    folder = tmp_path_factory.mktemp("readers")
    history = History(str(folder / "history"))
    scans = Scans(in_process, history, folder)
    written(history, "killed and deleted")
    for minutes, first, second in (
        (0, FAIR, UNFAIR),
        (10, UNFAIR, FAIR),
        (40, UNFAIR, UNFAIR),
        (1500, FAIR, UNFAIR),
        (5800, FAIR, UNFAIR),
    ):
        scans(cluster(topic("orders", first), topic("old", second)), f"at-{minutes}", minutes)
    for minutes in (15, 20):
        scans(cluster(topic("orders", UNFAIR), name="shop/other"), f"other-{minutes}", minutes, name="shop-other")
    written(history, "killed")
    return history.location


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs a program in a separate process and returns the value of its variable `told`."""

    def ran(program):
        file = tmp_path_factory.mktemp("told") / "told.json"
        save = f"import json, pathlib\npathlib.Path({str(file)!r}).write_text(json.dumps(told, default=str))\n"
        command = [sys.executable, "-c", f"{program}\n{save}"]
        environment = os.environ | {"TZ": "UTC"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(file.read_text())

    return ran


@pytest.mark.parametrize("tool", ROWS)
def test_documented_program_returns_the_rows_of_the_view_and_reads_all_rows(tool, location, run):
    program = PROGRAMS[tool].replace("/var/lib/rackspan", location)
    paths = {name: f"{location}/{name}" for name in TABLES}
    counts = f"counts = {{}}\nfor name, path in {paths}.items():\n    counts[name] = {COUNTS[tool]}\n"
    told = run(f"{program}\n{counts}\ntold = [{ROWS[tool]}, counts]")
    view = query(location, "SELECT cluster_name, topic, violation_minutes FROM violation_minutes").to_pylist()
    assert view
    assert sorted(row for row in told[0] if row[2]) == sorted(list(row.values()) for row in view)
    kept = {name: _number(location, name) for name in TABLES}
    assert told[1] == {name: number for name, (number, _) in kept.items()}
    assert any(number != counted for number, counted in kept.values())  # rows of a killed scan are in the table


def test_duckdb_returns_the_same_rows_for_every_view(location, run):
    tables = {name: table_view(name, [*TABLES[name].names, "attempt"], AGE) for name in TABLES}
    program = f"""
import duckdb
from deltalake import DeltaTable
engine = duckdb.connect()
engine.execute("SET TimeZone = 'UTC'")
for name, view in {tables}.items():
    engine.register(f"kept_{{name}}", DeltaTable(f"{location}/{{name}}").to_pyarrow_dataset())
    engine.execute(f"CREATE VIEW {{name}} AS {{view}}")
queries = { ({view.name: view.query for view in views()}) }
told = {{name: engine.sql(sql).to_arrow_table().to_pylist() for name, sql in queries.items()}}
"""
    told = run(program)
    for view in views():
        ours = json.loads(json.dumps(query(location, view.query).to_pylist(), default=str))
        assert list(map(_rounded, told[view.name])) == list(map(_rounded, ours)), view.name
        assert ours or view.name in {"costly_consumers", "flapping_brokers"}


def _number(location, name):
    """Return the number of all rows of a table, and the number of valid ones."""
    return DeltaTable(f"{location}/{name}").to_pyarrow_table().num_rows, len(query(location, f"SELECT 1 FROM {name}"))


def _rounded(row):
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}
