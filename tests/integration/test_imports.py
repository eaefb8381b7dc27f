"""Existing topics are imported from three sources and applied, and stay unchanged."""

import re

import pytest
from tests.support.command import cli
from tests.support.objects import condition

LEVELS = ("--levels", "region,zone,rack")
TOPICS = {
    "fair": ([[3, 0, 2], [2, 3, 1], [0, 4, 2]], {"min.insync.replicas": "2", "retention.ms": "60000"}),
    "Odd_Name": ([[0, 3]], {}),
    "unfair": ([[0, 1], [1, 2], [0, 3]], {"cleanup.policy": "compact,delete"}),
}
"""Of six brokers, 0 to 2 are in /eu and 3 to 5 in /us."""

STRIMZI = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata:
  name: {name}
  labels: {{strimzi.io/cluster: kafka}}
spec:
  topicName: {topic}
  replicas: {replicas}
  config: {config}
---
"""
TOPICCTL = """\
meta: {{name: {topic}, cluster: kafka, environment: test, region: eu}}
spec:
  partitions: {partitions}
  replicationFactor: {replicas}
  placement: {{strategy: {strategy}}}
  settings: {config}
---
"""


def definitions(source, topology):
    """Return the topics in the file format of another tool."""
    texts = []
    for name, (rows, config) in TOPICS.items():
        template = STRIMZI if source == "strimzi" else TOPICCTL
        texts.append(
            template.format(
                name=f"{name.lower().replace('_', '-')}",
                topic=topology.kafka_name(name),
                partitions=len(rows),
                replicas=len(rows[0]),
                strategy="in-rack" if name == "unfair" else "any",
                config=config,
            )
        )
    return "".join(texts)


@pytest.mark.parametrize("source", ["cluster", "strimzi", "topicctl"])
def test_imported_topics_stay_unchanged_after_their_manifests_are_applied(
    topology, topics, kafka, kubectl, control_plane, tmp_path, source
):
    server = ("--bootstrap-server", kafka.bootstrap(), *LEVELS)
    before = {}
    for name, (rows, config) in TOPICS.items():
        topic = topology.kafka_name(name)
        before[topic] = (topics.create(topic, rows, config=config), tuple(map(tuple, rows)), config)
    kafka.wait_until_agreed()
    only = (
        () if source != "cluster" else ("--topic", re.escape(topology.namespace) + "[.].*", "--topology-ref", "kafka")
    )
    files = () if source == "cluster" else (tmp_path / "theirs.yaml",)
    if files:
        files[0].write_text(definitions(source, topology))
    directory = tmp_path / "topics"

    ran = cli("import", source, *files, *server, *only, "--namespace", topology.namespace, "--output-dir", directory)
    assert ran.code == 0, ran.err
    assert "would change" not in ran.err
    assert "differs" not in ran.err
    assert "imported 3 of 3 topics; applying them changes nothing: the plan has 0 moves" in ran.err
    plan = cli("plan", "-f", directory, *server, "-o", "json")
    assert (plan.code, plan.json["moves"], plan.json["reorders"], plan.json["partitions"]) == (0, 0, 0, [])

    kubectl.apply(directory / topology.namespace)
    objects = {item["spec"].get("topicName", item["metadata"]["name"]): item for item in topology.topics()}
    assert set(objects) == set(before)
    for topic, item in objects.items():
        name = item["metadata"]["name"]
        told = topology.until_ready(name)
        assert told["status"].get("plan") is None
        assert (told["status"]["topicId"], told["status"]["adopted"]) == (before[topic][0], True)
        assert condition(told, "Compliant")["status"] == "True"
    cluster = ("--topology", f"{topology.namespace}/kafka", "--kubeconfig", control_plane.kubeconfig)
    whole = cli("plan", *cluster, "-o", "json")
    assert (whole.code, whole.json["moves"], whole.json["partitions"], whole.json["topics"]) == (0, 0, [], [])
    again = cli("import", source, *files, *only[:2], *cluster)
    assert (again.code, again.out) == (0, "")
    assert all(f"topic {topic}: skipped: it has a KafkaTopic, {topology.namespace}/" in again.err for topic in before)
    for topic, (identity, rows, config) in before.items():
        assert (topics.id(topic), topics.replicas(topic, len(rows)), topics.config(topic)) == (identity, rows, config)


def test_live_snapshot_lists_the_inherited_configs_of_a_topic(kafka, topics, topology):
    name = topology.kafka_name("inherits")
    topics.create(name, [[0, 3]], config={"retention.ms": "60000"})
    kafka.wait_until_agreed()
    found = cli("snapshot", "--bootstrap-server", kafka.bootstrap()).json["topics"]
    (one,) = (topic for topic in found if topic["name"] == name)
    assert one["inherited"] == ["min.insync.replicas"]
    assert set(one["config"]) == {"min.insync.replicas", "retention.ms"}
