"""Faults of scans on the command line: a one-line error, no partial result, and other clusters are scanned."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
from datetime import UTC, datetime

import pytest
from dev.waiting import eventually
from pyspark.sql import SparkSession
from tests.support.command import cli, cluster, topic
from tests.support.hostile_kafka import HostileKafka, spoiling
from tests.support.processes import command
from tests.support.progress import Steps

from rackspan.jobs.history.scan_history import History
from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.sources.scanned_cluster import ClusterError, live
from rackspan.jobs.spark.spark_engine import on_spark
from rackspan.kafka.command_config import command_properties

FAIR, UNFAIR = (0, 2, 3), (0, 1, 2)
GOOD = cluster(topic("orders", UNFAIR, FAIR, config={"min.insync.replicas": "2"}))


# --- many clusters, some of which cannot be scanned -------------------------------------------------------------------

UNKNOWN_IN_TOPIC = cluster({**topic("orders", FAIR), "colour": "red"})
FILES = {
    "good": json.dumps(GOOD),
    "cut": json.dumps(GOOD)[:-60],
    "empty": "",
    "future": json.dumps(GOOD | {"schemaVersion": 7}),
    "future-topic": json.dumps(UNKNOWN_IN_TOPIC),
    "no-topics": json.dumps(cluster()),
    "no-racks": json.dumps(cluster(topic("orders", FAIR), racks=dict.fromkeys(range(6)))),
    "some-racks": json.dumps(cluster(topic("orders", FAIR), topic("fine", (3, 2)), racks={0: None, 2: "/a", 3: "/b"})),
    "unicode": json.dumps(
        cluster(topic("orders", UNFAIR, config={"größe": "ünï 日本 🦆\u0000", "min.insync.replicas": 2}))
    ),
    "gone": json.dumps(cluster(topic("orders", (0, 2, 3), leader=None, isr=[]))),
}
LOST = {"cut", "empty", "future", "future-topic"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, spark):
    """The result of a scan of a directory of snapshots, and its documents by cluster."""
    folder = tmp_path_factory.mktemp("snapshots")
    for name, text in FILES.items():
        (folder / f"{name}.json").write_text(text)
    (folder / "notes.txt").write_text("no snapshot")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession, "stop", lambda _self: None)
        ran = cli("scan", "--snapshot", folder, "-o", "json")
    return ran, {document["cluster"]: document for document in ran.json["scans"]}


def test_unreadable_files_are_failed_scans_and_other_files_are_scanned(folder):
    ran, documents = folder
    assert ran.code == 2
    assert documents.keys() == FILES.keys()
    failed = {name: document for name, document in documents.items() if document.get("state") == "Failed"}
    assert failed.keys() == LOST
    assert {document["reason"] for document in failed.values()} == {"SnapshotUnreadable"}
    assert len(ran.errors) == len(LOST)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("cut", "ends"),
        ("empty", "is empty"),
        ("future", "schemaVersion"),
        ("future-topic", "colour"),
    ],
)
def test_error_names_the_unreadable_file_and_the_reason(folder, name, sentence):
    ran, documents = folder
    message = documents[name]["message"]
    assert f"{name}.json: " in message
    assert sentence in message
    assert f"{name}: {message}" in ran.errors


def test_cluster_without_topics_is_scanned(folder):
    document = folder[1]["no-topics"]
    assert document["summary"]["partitions"] == document["summary"]["findings"] == 0
    assert [broker["replicas"] for broker in document["brokers"]] == [0] * 6


def test_cluster_without_racks_has_no_findings(folder):
    assert folder[1]["no-racks"]["summary"]["findings"] == 0


def test_brokers_without_a_rack_are_reported_and_only_their_topics_are_not_judged(folder):
    found = folder[1]["some-racks"]["findings"]
    assert {(row["rule"], row.get("topic"), row.get("broker")) for row in found} == {
        ("MissingRack", None, 0),
        ("NotJudged", "orders", None),
    }
    (told,) = folder[1]["some-racks"]["warnings"]
    assert told == "no rack is known of broker 0: the loss of a domain may take more than is counted"


def test_unicode_in_configs_does_not_affect_scans(folder):
    assert folder[1]["unicode"]["summary"]["nonCompliant"] == 1
    assert folder[1]["good"]["topics"][0]["minInsyncReplicas"] == 2


def test_partition_without_a_leader_is_a_critical_finding(folder):
    (row,) = folder[1]["gone"]["findings"]
    assert (row["rule"], row["severity"], row["excess"]) == ("Offline", "critical", -3)


def test_single_unreadable_file_has_the_same_error_as_in_a_directory(rackspan, folder, tmp_path):
    for name in LOST:
        (tmp_path / f"{name}.json").write_text(FILES[name])
        ran = rackspan("scan", "--snapshot", tmp_path / f"{name}.json", "-o", "json")
        assert (ran.code, ran.json["reason"], len(ran.errors)) == (2, "SnapshotUnreadable", 1)
        assert (
            ran.json["message"].rpartition(f"{name}.json")[2]
            == folder[1][name]["message"].rpartition(f"{name}.json")[2]
        )


def test_racks_deeper_than_the_levels_fail_the_scan_with_a_one_line_error(rackspan, tmp_path):
    (tmp_path / "prod.json").write_text(json.dumps(GOOD))
    ran = rackspan("scan", "--snapshot", tmp_path / "prod.json", "--levels", "zone", "-o", "json")
    assert (ran.code, ran.json["state"], ran.json["reason"]) == (2, "Failed", "RacksUnusable")
    assert len(ran.errors) == 1


@pytest.mark.parametrize("missing", ["nowhere", "folder"])
def test_path_without_snapshots_is_rejected(rackspan, tmp_path, missing):
    (tmp_path / "folder").mkdir()
    ran = rackspan("scan", "--snapshot", tmp_path / missing)
    assert ran.code == 2
    assert str(tmp_path / missing) in ran.errors[0]


# --- responses that crash Kafka's client ------------------------------------------------------------------------------

CONFIG_WITHOUT_NAME = ("DescribeConfigs", "results.configs.name", None)
IN_A_WORKER = "a Python worker of Spark crashed, most likely in Kafka's client on an answer that it cannot read"


@pytest.mark.parametrize("answer", [("Metadata", "cluster_id", None), CONFIG_WITHOUT_NAME], ids=["outline", "portion"])
def test_response_that_crashes_a_python_worker_gives_a_one_line_error(spark, answer):
    with HostileKafka() as kafka:
        found = live("prod", command_properties(kafka.address))
        kafka.mutate = spoiling(*answer)
        with pytest.raises(ClusterError, match=IN_A_WORKER) as failed:
            scan_cluster(on_spark(spark, 2), found, ScanRun("one", datetime.now(UTC)), Steps(), print)
    assert failed.value.reason == "WorkerCrashed"
    assert "\n" not in str(failed.value)


def test_crash_of_a_python_worker_names_the_cluster_and_has_its_exit_code(rackspan):
    with HostileKafka(spoiling(*CONFIG_WITHOUT_NAME)) as kafka:
        ran = rackspan("scan", "--bootstrap-server", kafka.address, "--engine", "spark", "-o", "json")
    assert (ran.code, ran.json["state"], ran.json["reason"]) == (71, "Failed", "WorkerCrashed")
    assert ran.error.startswith(f"{kafka.address}: {IN_A_WORKER}")


def test_crash_of_the_driver_gives_a_one_line_error(process):
    with HostileKafka(spoiling("Metadata", "cluster_id", None)) as kafka:
        ran = process("scan", "--bootstrap-server", kafka.address)
    assert (ran.code, ran.out) == (71, "")
    assert ran.error.startswith(f"rackspan scan --bootstrap-server {kafka.address} crashed (SIGSEGV)")


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_scan_handles_one_topic_of_100_000_partitions_and_100_000_topics_of_one(rackspan, tmp_path):
    lists = [UNFAIR if number % 1000 == 7 else FAIR for number in range(100_000)]
    (tmp_path / "long.json").write_text(json.dumps(cluster(topic("orders", *lists))))
    wide = [topic(f"topic-{number}", row) for number, row in enumerate(lists)]
    (tmp_path / "wide.json").write_text(json.dumps(cluster(*wide)))
    ran = rackspan("scan", "--snapshot", tmp_path, "--history", tmp_path / "history", "-o", "json")
    assert ran.code == 1
    for document, topics in zip(ran.json["scans"], (1, 100_000), strict=True):
        summary = document["summary"]
        assert (summary["topics"], summary["partitions"], summary["nonCompliant"]) == (topics, 100_000, 100)
        assert summary["moves"] == 100
        assert len({row["id"] for row in document["findings"]}) == summary["findings"]
        assert len(document["topics"]) == min(topics, 100)


# --- killed scans -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [("findings", "scans")])
def test_killed_scan_leaves_a_consistent_history_and_can_be_repeated(rackspan, tmp_path, moment):
    """Two scans at once: one is killed at its first write, the other just before or after its commit."""
    location = tmp_path / "history"
    history = History(str(location))
    files = {table: tmp_path / f"killed-at-{table}.json" for table in moment}
    for file in files.values():
        file.write_text(json.dumps(GOOD))
        assert rackspan("scan", "--snapshot", file, "--history", location, "--scan-id", "first").code == 1
    before = {name: history.scans(name) for name in history.clusters()}
    written = {table: set(location.glob(f"{table}/cluster=killed-at-{table}/*/*")) for table in files}
    scans = {
        table: subprocess.Popen(
            command("scan", "--snapshot", file, "--history", location, "--scan-id", "killed"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for table, file in files.items()
    }
    left = dict(scans)

    def killed():
        for table, scan in list(left.items()):
            ended = scan.poll() is not None
            if set(location.glob(f"{table}/cluster=killed-at-{table}/*/*")) - written[table]:
                with contextlib.suppress(ProcessLookupError):  # it may have ended
                    os.killpg(scan.pid, signal.SIGKILL)
                del left[table]
            else:
                assert not ended, scan.stderr.read()
        return not left

    try:
        eventually(killed, "both to write", interval=0.005)
    finally:
        for scan in scans.values():
            if scan.poll() is None:
                with contextlib.suppress(ProcessLookupError):  # it may have ended
                    os.killpg(scan.pid, signal.SIGKILL)
            scan.communicate()
    for name, known in before.items():  # a scan that committed before the kill is visible and complete
        assert history.scans(name)[:1] == known
    ran = rackspan("scan", "--snapshot", tmp_path, "--history", location, "--scan-id", "killed", "-o", "json")
    assert ran.code == 1
    for document in ran.json["scans"]:
        assert document["changes"]["new"] == document["changes"]["cleared"] == 0
        assert document["changes"]["since"] is not None
        scans = history.scans(document["cluster"])
        assert [entry.scan_id for entry in scans] == ["first", "killed"]
        assert len(history.rows("findings", scans[1:])) == len(document["findings"])


# --- the location of the history --------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A separate disk of 512 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "rackspan-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a disk that is soon full")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # Spark may still have one of its files open


def test_full_disk_fails_the_scan_and_leaves_the_history_unchanged(rackspan, tmp_path, small_disk):
    (tmp_path / "prod.json").write_text(json.dumps(GOOD))
    scan = ("scan", "--snapshot", tmp_path / "prod.json", "--history", small_disk, "-o", "json")
    assert rackspan(*scan, "--scan-id", "first").code == 1
    history = History(str(small_disk))
    filler = small_disk / "filler"
    for room in (0, 32):  # no room at all, then room for some of the tables
        free = shutil.disk_usage(small_disk).free
        filler.write_bytes(bytes(max(free - room * 1024, 0)))
        ran = rackspan(*scan, "--scan-id", f"full-{room}")
        assert (ran.code, ran.json["state"], ran.json["reason"]) == (2, "Failed", "HistoryUnavailable"), room
        assert len(ran.errors) == 1
        assert f"history {small_disk}" in ran.errors[0]
        assert "No space left on device" in ran.errors[0]
        assert [entry.scan_id for entry in history.scans("prod")] == ["first"]
        filler.unlink()
    after = rackspan(*scan, "--scan-id", "second")
    assert after.code == 1
    assert after.json["changes"]["new"] == after.json["changes"]["cleared"] == 0


def test_history_that_is_a_file_fails_the_scan_and_an_unknown_scheme_is_rejected(rackspan, tmp_path):
    file = tmp_path / "prod.json"
    file.write_text(json.dumps(GOOD))
    ran = rackspan("scan", "--snapshot", file, "--history", file, "-o", "json")
    assert (ran.code, ran.json["state"], ran.json["reason"]) == (2, "Failed", "HistoryUnavailable")
    assert str(file) in ran.errors[0]
    ran = rackspan("scan", "--snapshot", file, "--history", "nowhere://bucket/x")
    assert (ran.code, len(ran.errors), ran.out) == (2, 1, "")


# --- Spark ------------------------------------------------------------------------------------------------------------


def test_small_cluster_is_scanned_without_spark_and_java(process, tmp_path):
    (tmp_path / "prod.json").write_text(json.dumps(GOOD))
    for name in ("pyspark", "py4j"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not here')")
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    scan = ("scan", "--snapshot", "prod.json", "--history", "history", "--page", "page.html", "-o", "json")
    assert [process(*scan, environment=environment).code for _ in range(2)] == [1, 1]
    assert len(History(str(tmp_path / "history")).scans("prod")) == 2
    assert "orders" in (tmp_path / "page.html").read_text()


def test_missing_spark_or_java_gives_a_one_line_error(rackspan, tmp_path, monkeypatch):
    (tmp_path / "prod.json").write_text(json.dumps(GOOD))
    scan = ("scan", "--snapshot", tmp_path / "prod.json", "--engine", "spark")
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda _name: None)
        ran = rackspan(*scan)
    assert (ran.code, ran.errors) == (2, ["Spark is not installed"])
    assert "hint: pip install" in ran.err
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = rackspan(*scan)
    assert (ran.code, ran.errors) == (2, ["there is no Java, which Spark needs"])


def test_java_that_does_not_start_gives_a_one_line_error(process, tmp_path):
    (tmp_path / "prod.json").write_text(json.dumps(GOOD))
    ran = process(
        *("scan", "--snapshot", "prod.json", "--history", "history", "--engine", "spark"),
        environment={"PATH": "/usr/bin:/bin", "JAVA_HOME": str(tmp_path / "nowhere")},
    )
    assert ran.code == 2
    assert len(ran.errors) == 1
    assert ran.errors[0].startswith("Spark did not start")
    assert not (tmp_path / "history" / "scans").exists()


# --- Kafka ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listening", [False, True])
def test_unreachable_cluster_is_a_failed_scan(rackspan, listening):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listening:
            silent.listen()
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        ran = rackspan("scan", "--bootstrap-server", server, "-o", "json")
    assert (ran.code, ran.json["state"], ran.json["reason"]) == (3, "Failed", "KafkaUnreachable")
    assert len(ran.errors) == 1
