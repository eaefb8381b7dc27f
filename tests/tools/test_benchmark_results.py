"""The documentation shows the measured speeds and the conditions of each measurement."""

from datetime import date

import pytest
from benchmarks import machine, results
from benchmarks.machine import Bystanders, Conditions
from benchmarks.results import PAGE, Result, latest, load, save, with_tables

QUIET = Conditions(load=0.4, stolen=0.01, others=0.02)
BUSY = Conditions(load=6.0, stolen=0.01, others=0.5)


def result(conditions, day=1, seconds=16.14):
    columns, formats = ["what", "topics", "seconds", "calls"], ["", ",d", ".1f", ".0f"]
    rows = [["operator: create", 1000, seconds, None] for _ in conditions]
    return Result("topics", "two-cores", date(2026, 1, day), columns, formats, rows, conditions)


def test_tables_of_the_page_equal_the_stored_results():
    text = PAGE.read_text()
    assert with_tables(text) == text


def test_every_result_file_is_named_after_its_benchmark_machine_and_day():
    for path in results.FOLDER.glob("*.json"):
        read = load(path)
        assert path.name == f"{read.benchmark}-{read.machine}-{read.measured}.json"
        assert read.table()


def test_load_returns_the_saved_result(tmp_path):
    written = result([QUIET, BUSY])
    assert load(save(written, tmp_path)) == written


def test_table_shows_the_conditions_of_a_row_and_warns_of_a_busy_machine():
    table = result([QUIET, Conditions(0.4, 0.2, None)]).table().splitlines()
    assert table[2] == "| operator: create | 1,000 | 16.1 |  | 0.4 | 1% | 2% |"
    assert table[3] == "| operator: create | 1,000 | 16.1 |  | 0.4 | 20% |  |"
    assert "do not use these figures" in table[-1]
    assert "do not use these figures" not in result([QUIET]).table()


def test_result_of_a_quiet_machine_is_preferred_to_a_newer_one(tmp_path):
    for each in (result([QUIET], day=2), result([BUSY], day=9), result([QUIET], day=3, seconds=5.0)):
        save(each, tmp_path)
    assert latest("topics", tmp_path).measured == date(2026, 1, 3)
    text = "before\n<!-- table: topics -->\nold\n<!-- end of table -->\nafter\n"
    made = with_tables(text, tmp_path)
    assert "| 5.0 |" in made
    assert made.startswith("before\n<!-- table: topics -->\n\n| what |")
    assert with_tables(made, tmp_path) == made
    with pytest.raises(ValueError, match="empty"):
        latest("unknown", tmp_path)


def test_cpu_time_of_the_benchmark_does_not_count_as_that_of_others(monkeypatch):
    times = iter([(100.0, 50.0, 0.0), (200.0, 110.0, 5.0)])
    monkeypatch.setattr(machine, "_cpu_times", lambda: next(times))
    spent = iter([10.0, 50.0])
    seen = Bystanders(lambda: next(spent)).seen()
    assert (seen.stolen, seen.others) == (0.05, 0.2)
    assert not seen.quiet


@pytest.mark.parametrize(
    ("conditions", "quiet"),
    [
        (Conditions(0.5, 0.0, None), True),
        (Conditions(5.0, 0.0, None), False),
        (Conditions(5.0, 0.0, 0.01), True),
        (Conditions(0.1, 0.0, 0.3), False),
        (Conditions(0.1, 0.1, 0.0), False),
    ],
)
def test_load_matters_only_if_the_cpu_time_of_others_is_unknown(conditions, quiet):
    assert conditions.quiet is quiet


def test_machine_name_consists_of_cores_model_and_memory(monkeypatch):
    monkeypatch.setattr(machine, "_model", lambda: "Intel(R) Xeon(R) Processor @ 2.60GHz")
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(machine, "_gib", lambda: 24)
    assert machine.name() == "2-cores-intel-xeon-24-gib"
