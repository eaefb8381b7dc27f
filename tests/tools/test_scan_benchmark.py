"""The benchmark of scans: it measures whole process trees and reports missed targets."""

import sys
from datetime import UTC, date, datetime

import psutil
import pytest
from benchmarks.scans import clocked, history, plain_sql, rules, whole, year
from benchmarks.scans.processes import CommandFailedError, CutOffError, run

from rackspan.core.compliance import judge
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import History
from rackspan.jobs.sources.synthetic_cluster import SyntheticCluster

MIB = 2**20
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_memory_and_cpu_of_a_process_include_its_children():
    hungry = f"held = bytearray({64 * MIB}); import time\nwhile time.process_time() < 1: pass"
    ran = run([sys.executable, "-c", CHILD, hungry])
    assert ran.peak > 64 * MIB
    assert ran.seconds > ran.cpu * 0.5
    assert ran.cpu > 0.2


def test_process_that_exceeds_its_time_limit_is_killed_with_its_children(tmp_path):
    told = tmp_path / "pid"
    sleeping = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(CutOffError, match="cut off after 10 s"):
        run([sys.executable, "-c", CHILD, sleeping], most=10)  # the child has started by then
    assert not psutil.pid_exists(int(told.read_text())) or psutil.Process(int(told.read_text())).status() == "zombie"


def test_error_of_a_failed_process_contains_its_message():
    with pytest.raises(CommandFailedError, match="no such thing"):
        run([sys.executable, "-c", "raise SystemExit('no such thing')"])


def test_time_of_an_inner_step_is_subtracted_from_the_outer_one():
    clock = clocked.Clock()
    with clock.timing("outer"), clock.timing("inner"):
        sum(range(2_000_000))
    assert clock.seconds["inner"] > 0
    assert clock.seconds["outer"] < clock.seconds["inner"]


def test_report_shows_growth_and_missed_targets():
    def one(partitions, seconds, gib):
        return whole.Measured(partitions, seconds, seconds, gib * 2**30, {}, 0, 0, 0)

    small, aimed, large = one(200_000, 10.0, 1), one(2_000_000, 91.0, 3), one(20_000_000, 950.0, 5)
    lines = whole.told([small, aimed, large])
    assert ["**missed**" in line for line in lines] == [False, True, True, False]
    assert "9.1 times the seconds" in lines[0]
    assert history.told({"days": 3.0, "flaps, of all": 18.0}).startswith("- all queries: 21.0 s")
    assert "**missed**" in history.told({"days": 21.0})


def test_different_counts_of_two_methods_raise_an_error():
    def counted(number):
        return rules.Measured(1, 1, 1, {"non_compliant": number})

    rules.agreed({"core": counted(3), "arrays": counted(3), "read": rules.Measured(1, 1, 1, {})})
    with pytest.raises(rules.DisagreeError):
        rules.agreed({"core": counted(3), "arrays": counted(4)})


def test_windows_for_sql_find_the_same_violations_as_the_core():
    cluster = SyntheticCluster(3_000, brokers=90, broken=0.05)
    replicas = cluster.portion(0, cluster.topics).replicas
    broken = judge(cluster.locations.tree, replicas).broken.tolist()
    levels = plain_sql.windows(cluster.locations.tree, 3)

    def unfair(row):
        held = [[level.domain_of[broker] for broker in row] for level in levels]
        return any(
            any(domains.count(domain) > level.high[domain] for domain in domains)
            or any(domains.count(domain) < low for domain, low in enumerate(level.low))
            for level, domains in zip(levels, held, strict=True)
        )

    assert [unfair(row) for row in replicas.tolist()] == broken
    assert 0 < sum(broken) < len(broken)


def test_generated_year_has_every_scan_and_findings_with_different_start_times(tmp_path):
    location = History(str(tmp_path))
    today = date(2026, 3, 10)
    assert [day.day for day in year.write(location, 2, today)] == [8, 9]
    every = location.scans(year.CLUSTER)
    assert len(every) == 2 * year.SCANS_A_DAY
    scans = location.rows("scans", every)
    assert len(scans) == 2 * year.SCANS_A_DAY
    assert sorted(scans["sequence"].to_pylist()) == list(range(1, len(scans) + 1))
    assert every[-1].observed_at < datetime(2026, 3, 10, tzinfo=UTC)
    found = location.rows("findings", every).to_pylist()
    stays = [row["first_seen"] for row in found]
    assert len(set(stays)) > 10
    assert all(len(location.rows(table, every)) for table in TABLES)
    assert sum(row["violation_minutes"] for row in scans.to_pylist()) > 0


def test_year_with_the_same_seed_is_the_same():
    first, second = (year.Year().scan("one", datetime(2026, 3, 10, tzinfo=UTC))[1] for _ in range(2))
    assert first == second
    assert len(first["findings"])
