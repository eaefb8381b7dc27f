"""`check -o sarif` and `-o junit`: findings for CI."""

from xml.etree import ElementTree as ET

import pytest
from tests.support.command import cluster, topic

LEVELS = ("--levels", "region,zone,rack")
HOSTILE = 're"<]]>&[x](y)'


@pytest.fixture
def prod(snapshot):
    return snapshot(
        cluster(
            topic("fine", [0, 2, 3], leader=0),
            topic("unfair", [0, 1], [1, 0], leader=0),
            topic("behind", [0, 3], isr=[0], leader=0),
        )
    )


def test_sarif_has_one_result_per_finding_with_rule_and_location(rackspan, prod):
    ran, plain = (rackspan("check", "--snapshot", prod, *LEVELS, "-o", form) for form in ("sarif", "json"))
    assert (ran.code, plain.code) == (1, 1)
    assert (ran.json["version"], len(ran.json["runs"])) == ("2.1.0", 1)
    run = ran.json["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(run["results"]) == len(plain.json["findings"]) > 2
    for result, finding in zip(run["results"], plain.json["findings"], strict=True):
        assert rules[result["ruleIndex"]] == result["ruleId"] == finding["rule"]
        assert result["partialFingerprints"] == {"rackspan/v1": finding["id"]}
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"] == {"uri": "prod.json"}
        assert location["logicalLocations"][0]["fullyQualifiedName"].startswith(finding["topic"])
    levels = {result["ruleId"]: result["level"] for result in run["results"]}
    assert (levels["NotCompliant"], levels["UnderReplicated"]) == ("error", "warning")


def test_junit_has_one_test_case_per_topic_and_fails_it_if_the_topic_is_not_compliant(rackspan, prod):
    ran = rackspan("check", "--snapshot", prod, *LEVELS, "-o", "junit")
    assert ran.code == 1
    (suite,) = ET.fromstring(ran.out)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    by_name = {case.get("name"): case for case in suite}
    assert [len(by_name["fine"]), by_name["fine"].get("classname")] == [0, "rackspan.topic"]
    assert by_name["unfair"].find("failure").get("type") == "NotCompliant"
    assert by_name["behind"].find("failure") is None
    assert by_name["behind"].find("system-out").text.startswith("UnderReplicated: behind-0: ")


def test_junit_fails_topics_with_replicas_on_drained_or_missing_brokers(rackspan, snapshot):
    file = snapshot(cluster(topic("drained", [0, 3], leader=0), topic("gone", [1, 9], leader=1), topic("fine", [1, 3])))
    options = ("--snapshot", file, *LEVELS, "--drain-broker", 0)
    ran = rackspan("check", *options, "-o", "junit")
    assert ran.code == 1
    (suite,) = ET.fromstring(ran.out)
    failed = {case.get("name"): case.find("failure") for case in suite}
    assert {name: None if one is None else one.get("type") for name, one in failed.items()} == {
        "9": "BrokerOffline",
        "drained": "ReplicaOnDrainedBroker",
        "fine": None,
        "gone": "NotCompliant",
    }
    assert suite.get("failures") == "3"
    assert failed["gone"].get("message") == "gone: 1 partition is out of compliance"


def test_junit_and_sarif_messages_are_equal_and_separate_the_finding_from_its_fix(rackspan, prod):
    junit, sarif = (rackspan("check", "--snapshot", prod, *LEVELS, "-o", form) for form in ("junit", "sarif"))
    lines = [line.split(": ", 1) for text in ET.fromstring(junit.out).itertext() for line in text.strip().splitlines()]
    results = [(one["ruleId"], one["message"]["text"]) for one in sarif.json["runs"][0]["results"]]
    assert sorted(map(tuple, lines)) == sorted(results)
    fixed = "unfair-0: region /eu holds 1 too many. rackspan plan: 1 replica to copy, none does with fewer"
    assert ("NotCompliant", fixed) in results


@pytest.mark.parametrize("form", ["sarif", "junit"])
def test_compliant_cluster_gives_no_sarif_result_and_no_junit_failure(rackspan, snapshot, form):
    ran = rackspan("check", "--snapshot", snapshot(cluster(topic("fine", [0, 3], leader=0))), *LEVELS, "-o", form)
    assert ran.code == 0
    if form == "sarif":
        assert ran.json["runs"][0]["results"] == []
    else:
        assert ET.fromstring(ran.out).get("failures") == "0"


def test_markup_in_a_level_name_is_escaped_in_junit_and_sarif(rackspan, snapshot):
    file = snapshot(cluster(topic("t", [0, 1], leader=0), racks={0: "/eu/a", 1: "/eu/b", 2: "/us/a"}))
    junit = rackspan("check", "--snapshot", file, "--levels", f"{HOSTILE},rack", "-o", "junit")
    sarif = rackspan("check", "--snapshot", file, "--levels", f"{HOSTILE},rack", "-o", "sarif")
    assert (junit.code, sarif.code) == (1, 1)
    (case,) = ET.fromstring(junit.out).iter("testcase")
    told = case.find("failure").get("message")
    (message,) = {one["message"]["text"] for one in sarif.json["runs"][0]["results"] if one["ruleId"] == "NotCompliant"}
    assert HOSTILE in told
    assert HOSTILE.replace("[", r"\[").replace("]", r"\]") in message
