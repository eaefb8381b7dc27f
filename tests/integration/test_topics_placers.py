"""A placer that somebody else packaged serves topics once it is installed, whatever it does."""

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
    """A directory that third-party placers are installed into: the packaged sample, and some with defects."""
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
    """The test's own operator in an environment where those placers are installed, and a topology for it."""
    operator_factory(f"--namespace={objects.namespace}", environment={"PYTHONPATH": str(site)})
    objects.create_topology(kafka.bootstrap())
    objects.until_topology()
    return objects


def test_an_installed_placer_places(with_placers, topics):
    with_placers.create_topic("orders", partitions=2, placement={"placer": "Widest"})
    topic = with_placers.until("KafkaTopic", "orders", lambda found: found.get("status", {}).get("placer") == "Widest")
    assert topics.replicas(with_placers.kafka_name("orders"), 2) == ((5, 4, 3), (5, 4, 3))
    # What it gives is judged by the same rule as everybody's.
    assert topic["status"]["compliance"]["nonCompliant"] == 2


def test_a_placer_may_leave_the_choice_to_kafka(with_placers, topics):
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


def test_a_placer_s_defect_is_its_topic_s_alone(with_placers, topics):
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


def test_a_placer_that_takes_too_long_holds_nobody_else_up(with_placers, topics, promise):
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
