"""Scans of a real Kafka: compared with a snapshot, while topics come and go, and while a broker is offline."""

import threading

import pytest
from confluent_kafka.admin import NewTopic
from dev.stack.kafka_cluster import PATIENT
from tests.scan.conftest import NOON
from tests.support.progress import Steps
from tests.support.topics import create, until_missed

from rackspan.jobs.history.scan_history import History
from rackspan.jobs.scan.cluster_scan import ScanRun, scan_cluster
from rackspan.jobs.sources.scanned_cluster import live
from rackspan.kafka.command_config import command_properties
from rackspan.reports.document import ScanOutcome

BYTES = frozenset({"bytes", "moveBytes"})
"""A live scan requests these from brokers. A snapshot does not have them."""
SHOWN = ("rule", "severity", "topic", "partition", "broker", "level", "domain", "excess", "moves", "message", "fix")


def without_bytes(part):
    if isinstance(part, list):
        return [without_bytes(one) for one in part]
    if isinstance(part, dict):
        return {name: without_bytes(one) for name, one in part.items() if name not in BYTES}
    return part


@pytest.fixture
def topics(kafka):
    """Create topics in the shared cluster, and delete them after the test: `topics(("orders", [(0, 1)]))`."""
    made = []

    def make(*some):
        made.extend(name for name, _ in some)
        create(kafka, *some)

    yield make
    admin = kafka.admin()
    for answer in admin.delete_topics(made, operation_timeout=300).values():
        answer.result(300)


@pytest.mark.stack
def test_live_scan_has_the_result_of_a_scan_of_its_snapshot(rackspan, kafka, topics, tmp_path):
    topics(("scan-fair", [(0, 3, 2)]), ("scan-unfair", [(0, 1, 2), (3, 4, 5), (0, 3, 4)]))
    server = ("--bootstrap-server", kafka.bootstrap())
    (tmp_path / "prod.json").write_text(rackspan("snapshot", *server).out)
    found = [
        rackspan("scan", *source, "--levels", "region,zone,rack", "-o", "json")
        for source in (server, ("--snapshot", tmp_path / "prod.json"))
    ]
    assert [ran.code for ran in found] == [1, 1]
    one, other = (ran.json for ran in found)
    told = [
        sorted(repr([row.get(name) for name in SHOWN]) for row in document["findings"]) for document in (one, other)
    ]
    assert told[0] == told[1]
    assert {row["topic"] for row in one["findings"]} >= {"scan-unfair"}
    assert one["clusterId"] == other["clusterId"] == kafka.cluster_id
    assert one["summary"]["bytes"] is not None
    for document in (one, other):
        assert document["summary"].pop("sinceByRule"), "the time of the scan, without a history"
    for part in ("summary", "domains", "brokers"):
        assert without_bytes(one[part]) == without_bytes(other[part]), part


@pytest.mark.stack
def test_topics_created_and_deleted_during_a_scan_do_not_fail_it(engine, kafka, topics, tmp_path):
    done = threading.Event()
    rounds = []

    def churn():
        admin = kafka.admin()
        while not done.wait(0.2):  # without a pause, brokers would not answer any other client
            names = [f"churn-{len(rounds) % 3}-{at}" for at in range(4)]
            for answer in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
                answer.exception(300)
            for answer in admin.delete_topics(names).values():
                answer.exception(300)
            rounds.append(names)

    topics(("scan-stays", [(0, 1, 2)]))
    churning = threading.Thread(target=churn)
    churning.start()
    history = History(str(tmp_path / "history"))
    try:
        scans = 0
        while scans < 2 or len(rounds) < 3:
            cluster = live("prod", command_properties(kafka.bootstrap()), ("region", "zone", "rack"))
            document = scan_cluster(engine, cluster, ScanRun(f"scan-{scans}", NOON, history), Steps(), print)
            scans += 1
            assert document.state is ScanOutcome.COMPLETED
            assert "scan-stays" in {row.name for row in document.topics}
            assert not {row.rule for row in document.findings if row.topic == "scan-stays"} - {"NotCompliant"}
            assert churning.is_alive()
    finally:
        done.set()
        churning.join(60)
    assert len(history.rows("scans", history.scans("prod"))) == scans


@pytest.mark.stack
def test_offline_broker_is_a_finding_and_an_unreachable_cluster_is_a_failed_scan(rackspan, kafka_factory):
    cluster = kafka_factory(["/eu/a", "/eu/b", "/eu/c"], properties=PATIENT)
    create(cluster, ("orders", [(0, 1, 2), (1, 2, 0), (2, 0, 1)]), ("alone", [(2,)]))
    scan = ("scan", "--bootstrap-server", cluster.bootstrap(), "-o", "json")
    assert rackspan(*scan).json["summary"]["findings"] == 0
    cluster.stop_broker(2)
    until_missed(cluster, 2)
    ran = rackspan(*scan)
    assert ran.code == 1
    keys = ("rule", "topic", "partition", "broker", "excess")
    found = {tuple(row.get(key) for key in keys) for row in ran.json["findings"]}
    never = {("Unsatisfiable", "orders", number, None, 1) for number in range(3)}  # three replicas on two brokers
    assert found == {("Offline", "alone", 0, 2, -1), ("BrokerOffline", None, None, 2, 4), *never}
    assert ran.json["summary"]["underReplicated"] == ran.json["summary"]["nonCompliant"] == 4
    cluster.destroy()
    ran = rackspan(*scan)
    assert (ran.code, ran.json["state"], ran.json["reason"]) == (3, "Failed", "KafkaUnreachable")
