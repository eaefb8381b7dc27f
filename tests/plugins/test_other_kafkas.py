"""The plug-ins on other versions of Kafka than the one they are compiled against, as docs/plugins.md says of each."""

import json

import pytest
from dev.paths import REPOSITORY
from dev.stack.other_kafkas import find_other_kafkas
from tests.plugins.conftest import ASSIGNOR, NEAREST, SHARE_ASSIGNOR

OLDEST = "2.4.0"
INTERFACE = "org/apache/kafka/coordinator/group/api/assignor/ConsumerGroupPartitionAssignor"


@pytest.fixture(scope="module")
def kafkas(kafka_distribution):
    """The jars of each version."""
    others = find_other_kafkas()
    if not others:
        pytest.skip("no jars of other versions of Kafka: `make assets` downloads them")
    own = [jar for jar in kafka_distribution.jars if jar.name.startswith("kafka")]
    return {version: list(map(str, jars)) for version, jars in {**others, kafka_distribution.version: own}.items()}


def cases_of(plugin, name):
    return {"plugin": plugin, "given": json.loads((REPOSITORY / f"plugins/cases/{name}.json").read_text())}


@pytest.fixture(scope="module")
def told(java, kafkas):
    """By version and program, what the cases came to there, or why the plug-in could not be made."""
    programs = {
        "ReplicaSelections": cases_of(NEAREST, "nearest_replica"),
        "Assignments": cases_of(ASSIGNOR, "assignment"),
    }
    return java("OtherKafkas", given={"kafkas": kafkas, "programs": programs})


def test_the_selector_chooses_alike_on_the_oldest_kafka_and_the_newest(told, kafka_distribution):
    assert {OLDEST, "4.3.1"} <= told.keys()
    expected = told[kafka_distribution.version]["ReplicaSelections"]
    assert {version: by["ReplicaSelections"] for version, by in told.items()} == dict.fromkeys(told, expected)


def test_the_assignor_assigns_alike_on_every_kafka_with_its_interface(told, kafka_distribution):
    expected = told[kafka_distribution.version]["Assignments"]
    having = told.keys() - {OLDEST}
    assert having >= {"3.9.0", "4.0.0", "4.3.1"}
    assert {version: told[version]["Assignments"] for version in having} == dict.fromkeys(having, expected)


def test_the_assignor_of_share_groups_assigns_alike_where_there_are_share_groups(java, kafkas, kafka_distribution):
    having = {version: kafkas[version] for version in ("4.3.1", kafka_distribution.version)}
    programs = {"Assignments": cases_of(SHARE_ASSIGNOR, "share_assignment")}
    told = java("OtherKafkas", given={"kafkas": having, "programs": programs})
    expected = [case["expected"] for case in programs["Assignments"]["given"]]
    assert told == {version: {"Assignments": expected} for version in having}


def test_a_kafka_without_that_interface_says_what_is_missing(told):
    missing = f"NoClassDefFoundError: {INTERFACE}"
    assert told[OLDEST]["Assignments"] == {"error": f"java.lang.{missing}"}
    assert missing in (REPOSITORY / "docs" / "plugins.md").read_text()
