"""Third-party placers place topics after their installation, and their errors affect only their own topics."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dev.paths import REPOSITORY
from tests.support.objects import condition, message

SAMPLE = REPOSITORY / "tests" / "placers" / "sample"
DEFECTIVE = """
import time

from rackspan.core.placement import Placement


class Raises:
    def place(self, spec, cluster):
        raise KeyError("nothing here")


class TooFew:
    def place(self, spec, cluster):
        return Placement([[0, 1, 2]])


class Sleeps:
    def place(self, spec, cluster):
        time.sleep(3600)


class Twice:
    def place(self, spec, cluster):
        return Placement([[0, 0, 1]] * spec.partitions)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A directory with installed third-party placers: the packaged sample, and some with defects."""
    target = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "sample"
    shutil.copytree(SAMPLE, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", target, source], check=True)
    (target / "defective.py").write_text(DEFECTIVE)
    info = target / "defective-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: defective\nVersion: 1.0\n")
    points = "".join(f"{name} = defective:{name}\n" for name in ("Raises", "TooFew", "Twice", "Sleeps"))
    (info / "entry_points.txt").write_text(f"[rackspan.placers]\n{points}")
    return target


@pytest.fixture
def with_placers(operator_factory, site, objects, kafka, broker_sites):
    """A topology for a separate operator that runs in an environment with these placers."""
    operator_factory(f"--namespace={objects.namespace}", environment={"PYTHONPATH": str(site)})
    objects.create_topology(kafka.bootstrap())
    objects.until_topology()
    return objects


def test_installed_placer_places_topics(with_placers, topics):
    with_placers.create_topic("orders", partitions=2, placement={"placer": "Widest"})
    topic = with_placers.until("KafkaTopic", "orders", lambda found: found.get("status", {}).get("placer") == "Widest")
    assert topics.replicas(with_placers.kafka_name("orders"), 2) == ((5, 4, 3), (5, 4, 3))
    # The result of any placer is evaluated by the same compliance rule.
    assert topic["status"]["compliance"]["nonCompliant"] == 2


def test_placer_may_leave_the_placement_to_kafka(with_placers, topics):
    with_placers.create_topic(
        "orders", replicationFactor=1, placement={"placer": "Widest"}, durability={"minDomains": {"zone": 1}}
    )
    with_placers.until_ready("orders")
    name = with_placers.kafka_name("orders")
    assert [len(row) for row in topics.replicas(name, 3)] == [1, 1, 1]
    topics.until_config(name, {"min.insync.replicas": "1"})
    with_placers.change_topic("orders", partitions=5)
    with_placers.until_ready("orders")
    assert [len(row) for row in topics.replicas(name, 5)] == [1] * 5


def test_defective_placer_stalls_only_its_own_topic(with_placers, topics):
    for number in range(3):
        with_placers.create_topic(f"good-{number}")
    for placer in ("Raises", "TooFew", "Twice"):
        with_placers.create_topic(placer.lower(), placement={"placer": placer})
    assert message(with_placers.until_stalled("raises", "PlacerFailed")) == (
        "the placer 'Raises' failed: KeyError: 'nothing here'"
    )
    assert message(with_placers.until_stalled("toofew", "PlacerFailed")) == (
        "the placer 'TooFew' gave 1 partition, 3 were asked for"
    )
    with_placers.until_stalled("twice", "KafkaRefused")
    for number in range(3):
        with_placers.until_ready(f"good-{number}")
    assert not topics.exists(with_placers.kafka_name("twice"))


def test_slow_placer_times_out_and_does_not_delay_other_topics(with_placers, topics, promise):
    with_placers.create_topic("asleep", placement={"placer": "Sleeps"})
    with_placers.create_topic("good")
    with_placers.create_topic("widest", placement={"placer": "Widest"})
    with_placers.until_ready("good")
    with_placers.until("KafkaTopic", "widest", lambda found: found.get("status", {}).get("placer") == "Widest")
    told = with_placers.until_condition("KafkaTopic", "asleep", "Reconciling", "True", "PlacerTimedOut")
    assert condition(told, "Ready")["reason"] == "PlacerTimedOut"
    promise.kept_by(told, "Reconciling")
    assert not topics.exists(with_placers.kafka_name("asleep"))
    with_placers.change_topic("asleep", placement=None)
    with_placers.until_ready("asleep")
