"""The plug-ins on Kafka versions other than the one they are compiled against, as docs/plugins.md describes."""

import json

import pytest
from dev.paths import REPOSITORY
from dev.stack.other_kafkas import find_other_kafkas
from tests.plugins.conftest import ASSIGNOR, NEAREST, SHARE_ASSIGNOR

OLDEST = "2.4.0"
INTERFACE = "org/apache/kafka/coordinator/group/api/assignor/ConsumerGroupPartitionAssignor"


@pytest.fixture(scope="module")
def kafkas(kafka_distribution):
    """Return the jars of each version."""
    others = find_other_kafkas()
    if not others:
        pytest.skip("no jars of other versions of Kafka: `make assets` downloads them")
    own = [jar for jar in kafka_distribution.jars if jar.name.startswith("kafka")]
    return {version: list(map(str, jars)) for version, jars in {**others, kafka_distribution.version: own}.items()}


def cases_of(plugin, name):
    return {"plugin": plugin, "given": json.loads((REPOSITORY / f"plugins/cases/{name}.json").read_text())}


@pytest.fixture(scope="module")
def told(java, kafkas):
    """Return the results of the cases, or the error of loading the plug-in, by version and program."""
    programs = {
        "ReplicaSelections": cases_of(NEAREST, "nearest_replica"),
        "Assignments": cases_of(ASSIGNOR, "assignment"),
    }
    return java("OtherKafkas", given={"kafkas": kafkas, "programs": programs})


def test_selector_chooses_the_same_replicas_on_every_kafka_version(told, kafka_distribution):
    assert {OLDEST, "4.3.1"} <= told.keys()
    expected = told[kafka_distribution.version]["ReplicaSelections"]
    assert {version: by["ReplicaSelections"] for version, by in told.items()} == dict.fromkeys(told, expected)


def test_assignor_gives_the_same_result_on_every_kafka_with_its_interface(told, kafka_distribution):
    expected = told[kafka_distribution.version]["Assignments"]
    having = told.keys() - {OLDEST}
    assert having >= {"3.9.0", "4.0.0", "4.3.1"}
    assert {version: told[version]["Assignments"] for version in having} == dict.fromkeys(having, expected)


def test_share_assignor_gives_the_same_result_on_every_kafka_with_share_groups(java, kafkas, kafka_distribution):
    having = {version: kafkas[version] for version in ("4.3.1", kafka_distribution.version)}
    programs = {"Assignments": cases_of(SHARE_ASSIGNOR, "share_assignment")}
    told = java("OtherKafkas", given={"kafkas": having, "programs": programs})
    expected = [case["expected"] for case in programs["Assignments"]["given"]]
    assert told == {version: {"Assignments": expected} for version in having}


def test_error_on_a_kafka_without_the_interface_is_documented(told):
    missing = f"NoClassDefFoundError: {INTERFACE}"
    assert told[OLDEST]["Assignments"] == {"error": f"java.lang.{missing}"}
    assert missing in (REPOSITORY / "docs" / "plugins.md").read_text()
