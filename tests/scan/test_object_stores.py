"""The history of scans on a real S3 server: concurrent writers, an overloaded store, and access errors."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from dev.paths import REPOSITORY
from dev.waiting import eventually
from tests.support.s3 import ACCESS, BUCKET, SECRET, in_trouble, left_to_refuse, start_s3
from tests.unit.jobs.tables import committed, contents, example_document, scan_ids, shown, written

from rackspan.jobs.history.scan_history import History, HistoryError

SNAPSHOT = REPOSITORY / "examples" / "snapshots" / "prod.json"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("s3") / "buckets"
    (found / BUCKET).mkdir(parents=True)
    return found


@pytest.fixture(scope="module")
def server(processes, versitygw, folder):
    return start_s3(processes, versitygw, folder, "s3")


@pytest.fixture
def location(request, server, monkeypatch):
    """A location for this test only, with the environment variables for access to it."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{request.node.name[:60]}"


def _commit(location, scan_id):
    history = History(location)
    entry = written(history, scan_id)
    return entry.attempt if shown(history, entry) else None


def test_scans_are_written_read_compacted_and_expired(location):
    history = History(location)
    history.try_writing()
    first, second = committed(history, "a"), committed(history, "b", count=3)
    assert (history.clusters(), history.scans("prod")) == (["prod"], [first, second])
    assert history.document(first) == example_document(first)
    before = contents(history)
    history.compact(second)
    history.vacuum()
    assert contents(history) == before
    history.expire("prod", second.day.replace(day=second.day.day + 1))
    assert history.scans("prod") == []


def test_concurrent_writers_are_all_visible_and_only_one_commit_of_a_scan_counts(location):
    committed(History(location), "before")
    with ThreadPoolExecutor(4) as pool:
        all_of_them = list(pool.map(_commit, [location] * 4, "abcd"))
        same = list(pool.map(_commit, [location] * 4, ["e"] * 4))
    assert all(all_of_them)
    assert sum(attempt is not None for attempt in same) == 1
    history = History(location)
    assert sorted(scan_ids(history)) == ["a", "b", "before", "c", "d", "e"]
    assert len(history.rows("findings", history.scans("prod"))) == 2 * 6


KILLED = """
import os, sys
from tests.unit.jobs.tables import written
from rackspan.jobs.history.scan_history import History
written(History(sys.argv[1]), "a")
os.kill(os.getpid(), 9)
"""


def test_writer_killed_before_its_commit_leaves_nothing_visible(location):
    committed(History(location), "before")
    assert subprocess.run([sys.executable, "-c", KILLED, location], check=False).returncode == -9
    assert scan_ids(History(location)) == ["before"]
    committed(History(location), "a")
    history = History(location)
    assert scan_ids(history) == ["before", "a"]
    assert len(history.rows("findings", history.scans("prod"))) == 4


def test_overloaded_and_slow_store_loses_nothing(location, server, processes, monkeypatch):
    proxy = in_trouble(processes, server, "s3-in-trouble", refuse=3, seconds=0.02)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    history = History(location)
    committed(history, "a")
    eventually(lambda: left_to_refuse(proxy) == 0, "the store to have refused all that it should", retry_on=OSError)
    assert scan_ids(history) == ["a"]
    assert not shown(history, written(history, "a"))
    assert len(contents(History(location))["findings"]) == 2


def wrong_key(folder, server):
    return server.environment(AWS_ACCESS_KEY_ID="somebody-else"), BUCKET


def wrong_secret(folder, server):
    return server.environment(AWS_SECRET_ACCESS_KEY="another-secret"), BUCKET


def expired_token(folder, server):
    return server.environment(AWS_ACCESS_KEY_ID="ASIAEXPIRED", AWS_SESSION_TOKEN="a-token-of-yesterday"), BUCKET


def wrong_region(folder, server):
    return server.environment(AWS_REGION="us-west-2"), BUCKET


def no_bucket(folder, server):
    return server.environment(), "nowhere"


def nobody_there(folder, server):
    return server.environment(AWS_ENDPOINT_URL="http://127.0.0.1:9"), BUCKET


@pytest.mark.parametrize("wrong", [wrong_key, wrong_secret, expired_token, wrong_region, no_bucket, nobody_there])
def test_access_error_is_one_line_without_secrets(wrong, folder, server, process):
    environment, bucket = wrong(folder, server)
    ran = process("scan", "--snapshot", SNAPSHOT, "--history", f"s3://{bucket}/x", environment=os.environ | environment)
    assert ran.code == 2
    (sentence,) = ran.err.splitlines()
    assert f"history s3://{bucket}/x cannot be written: " in sentence
    assert len(sentence) < 600
    secrets = {value for name, value in environment.items() if "SECRET" in name or "TOKEN" in name}
    assert not any(secret in ran.err + ran.out for secret in secrets)


def test_read_only_bucket_is_reported_and_can_be_read(location, folder, server, processes, versitygw, monkeypatch):
    committed(History(location), "a")
    reading = start_s3(processes, versitygw, folder, "s3-read-only", "--readonly")
    monkeypatch.setenv("AWS_ENDPOINT_URL", reading.endpoint)
    with pytest.raises(HistoryError, match=r"cannot be written: .*give the right to write there"):
        History(location).try_writing()
    assert scan_ids(History(location)) == ["a"]


def test_empty_data_file_is_an_error(location, folder):
    history = History(location)
    committed(history, "a")
    (file,) = (folder / location.removeprefix("s3://") / "findings").rglob("*.parquet")
    file.write_bytes(b"")
    with pytest.raises(HistoryError, match=r"has 0 bytes, and .* when it was committed: restore it"):
        contents(history)


def test_commands_write_to_s3_and_read_from_s3_without_printing_credentials(location, server, process):
    environment = os.environ | server.environment()
    for name in ("one", "two"):
        ran = process(
            "scan",
            "--snapshot",
            SNAPSHOT,
            "--history",
            location,
            "--scan-id",
            name,
            "--exit-zero",
            environment=environment,
        )
        assert ran.code == 0, ran.err
    shown = process("report", "fleet", "--history", location, environment=environment)
    assert shown.code == 0, shown.err
    assert SECRET not in shown.out
    assert ACCESS not in shown.out
