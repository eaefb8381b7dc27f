"""`rackspan import strimzi` and `topicctl`: their files become KafkaTopics, and what these cannot say is said."""

import json

import pytest
import yaml
from tests.support.command import cluster, topic

LEVELS = ("--levels", "region,zone,rack")

STRIMZI = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata:
  name: clicks
  namespace: shop
  labels:
    strimzi.io/cluster: east
    team: web
    app.kubernetes.io/managed-by: Helm
  annotations:
    strimzi.io/pause-reconciliation: "true"
    owner: web@example.com
    kubectl.kubernetes.io/last-applied-configuration: "{}"
  ownerReferences: [{kind: Shop}]
  uid: 1-2-3
spec:
  topicName: Clicks_v1
  partitions: 2
  replicas: 2
  config:
    retention.ms: 7200000
    min.cleanable.dirty.ratio: 0.50
    preallocate: false
    cleanup.policy: [compact, delete]
    flush.ms: null
  colour: red
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata:
  name: plain
  labels: {strimzi.io/cluster: east}
spec: {partitions: 1, replicas: 2}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: east}
"""

TOPICCTL = """\
meta:
  name: clicks
  cluster: east
  environment: prod
  region: eu
  description: |
    What people click.
  labels: {team: web, bad: "not a label!"}
  consumers: [billing, search]
spec:
  partitions: 2
  replicationFactor: 2
  retentionMinutes: 120
  retentionDropStepDuration: 5h
  placement: {strategy: in-rack, picker: lowest-index}
  settings:
    cleanup.policy: compact
    preallocate: true
    segment.bytes: 1.5e3
  migration: {throttleMB: 20, partitionBatchSize: 3}
---
meta: {name: pinned, cluster: east, environment: prod, region: eu}
spec:
  partitions: 2
  replicationFactor: 2
  placement: {strategy: static, staticAssignments: [[0, 3], [4, 2]]}
"""
EAST = """\
meta: {name: east, environment: prod, region: eu}
spec: {bootstrapAddrs: ["kafka:9092"]}
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_text(text)

    write(strimzi=STRIMZI, topicctl=TOPICCTL, east=EAST)
    return write


def manifests(ran):
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all(ran.out)}


# -- Strimzi ---------------------------------------------------------------------------------------------------------


def test_a_topic_of_strimzi_keeps_what_a_kafkatopic_can_say(rackspan, files):
    ran = rackspan("import", "strimzi", "strimzi.yaml")
    assert ran.code == 0, ran.err
    found = manifests(ran)
    assert found["clicks"] == {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {
            "name": "clicks",
            "namespace": "shop",
            "labels": {"team": "web"},
            "annotations": {"owner": "web@example.com", "rackspan.dev/paused": "true"},
        },
        "spec": {
            "topologyRef": {"name": "east"},
            "topicName": "Clicks_v1",
            "partitions": 2,
            "replicationFactor": 2,
            "config": {
                "cleanup.policy": "compact,delete",
                "min.cleanable.dirty.ratio": "0.50",
                "preallocate": "false",
                "retention.ms": 7200000,
            },
        },
    }
    assert found["plain"]["spec"] == {"topologyRef": {"name": "east"}, "partitions": 1, "replicationFactor": 2}
    here = "note: strimzi.yaml:1: topic Clicks_v1: "
    for told in (
        "not kept: config flush.ms: is null",
        "not kept: metadata.labels app.kubernetes.io/managed-by: it tells a tool that the object is its own",
        "not kept: metadata.ownerReferences: the new object has no owner",
        "not kept: spec.colour: is not known",
        "kept otherwise: metadata.annotations strimzi.io/pause-reconciliation: rackspan.dev/paused",
    ):
        assert here + told in ran.err
    assert "note: strimzi.yaml:35: Kafka east: skipped: it is no KafkaTopic of Strimzi" in ran.err
    assert "last-applied" not in ran.out


def test_clusters_namespaces_and_topologies_can_be_chosen(rackspan, files):
    files(west=STRIMZI.replace("cluster: east", "cluster: west"))
    both = rackspan(
        *("import", "strimzi", "strimzi.yaml", "west.yaml", "--namespace", "ns"),
        *("--topology-ref", "east=kafka/e", "--topology-ref", "west=w"),
    )
    references = {name: one["spec"]["topologyRef"] for name, one in manifests(both).items()}
    assert references == {
        "clicks-e": {"name": "e", "namespace": "kafka"},
        "clicks-w": {"name": "w"},
        "plain-e": {"name": "e", "namespace": "kafka"},
        "plain-w": {"name": "w"},
    }
    assert {one["metadata"]["namespace"] for one in manifests(both).values()} == {"ns"}
    west = rackspan("import", "strimzi", ".", "--cluster", "west")
    assert {one["spec"]["topologyRef"]["name"] for one in manifests(west).values()} == {"west"}
    assert "topic plain: skipped: it is of cluster east" in west.err


def test_what_the_brokers_default_decides_comes_from_the_cluster(rackspan, files, snapshot):
    files(strimzi="apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {name: a}\nspec: {}\n")
    blind = rackspan("import", "strimzi", "strimzi.yaml", "--topology-ref", "main")
    assert (blind.code, blind.out) == (2, "")
    assert "error: strimzi.yaml:1: topic a: spec.partitions and spec.replicas are left to the brokers" in blind.err
    prod = snapshot(cluster(topic("a", [0, 3], [4, 2])))
    ran = rackspan("import", "strimzi", "strimzi.yaml", "--topology-ref", "main", "--snapshot", prod, *LEVELS)
    assert ran.code == 0, ran.err
    assert manifests(ran)["a"]["spec"] == {"topologyRef": {"name": "main"}, "partitions": 2, "replicationFactor": 2}
    assert "differs" not in ran.err


def test_what_kafka_has_otherwise_is_imported_as_it_is_and_said(rackspan, files, snapshot, tmp_path):
    config = {"retention.ms": "1", "cleanup.policy": "compact, delete", "preallocate": "FALSE"}
    prod = snapshot(cluster(topic("Clicks_v1", [0, 1, 3], [4, 2, 0], [1, 2, 3], config=config)))
    ran = rackspan("import", "strimzi", "strimzi.yaml", "--snapshot", prod, *LEVELS, "--namespace", "shop")
    found = manifests(ran)["clicks"]["spec"]
    assert (found["partitions"], found["replicationFactor"]) == (3, 3)
    assert found["config"] == {"cleanup.policy": "compact,delete", "preallocate": "false", "retention.ms": 1}
    for told in (
        "differs: partitions: the definition says 2, Kafka has 3, which is imported",
        "differs: replicationFactor: the definition says 2, Kafka has 3, which is imported",
        "differs: config retention.ms: the definition says 7200000, Kafka has 1, which is imported",
        "differs: config min.cleanable.dirty.ratio: the definition says 0.50, in Kafka it is not set; it is left out",
    ):
        assert f"topic Clicks_v1: {told}" in ran.err
    assert "topic plain: would change: topic: Kafka has no such topic: applying the manifest creates it" in ran.err
    assert "changes nothing" not in ran.err
    (tmp_path / "all.yaml").write_text(ran.out)
    assert rackspan("plan", "-f", "all.yaml", "--snapshot", prod, *LEVELS, "-o", "json").json["moves"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("partitions: 2", "partitions: many"), '18: spec.partitions: must be a whole number, not "many"'),
        (("partitions: 2", "partitions: 0"), '18: spec.partitions: must be from 1 to 100,000, not "0"'),
        (("topicName: Clicks_v1", "topicName: a b"), '17: spec.topicName: "a b" is no name that Kafka gives a topic'),
        (("topicName: Clicks_v1", "topicName: 7"), '17: spec.topicName: must be a text, not "7"'),
        (("flush.ms: null", "flush.ms: {}"), "25: spec.config.flush.ms: must be a value or a list, not a mapping"),
        (("  replicas: 2", "\treplicas: 2"), "19: is not YAML: found a tab character that violates indentation"),
        (("  uid: 1-2-3", "  name: twice"), '15: the key "name" is given twice'),
        (("  name: clicks", "  named: clicks"), "4: metadata.name: is missing"),
        (("strimzi.io/cluster: east\n    team", "team"), "1: topic Clicks_v1: has no label strimzi.io/cluster"),
    ],
)  # fmt: skip
def test_a_bad_document_is_told_with_its_line_and_loses_no_other(rackspan, files, change, said):
    files(strimzi=STRIMZI.replace(*change))
    ran = rackspan("import", "strimzi", "strimzi.yaml")
    assert (ran.code, ran.out) == (2, "")
    first, last = ran.errors
    assert first.startswith(f"strimzi.yaml:{said}")
    assert last == "nothing is written, because 1 document cannot be imported"
    kept = rackspan("import", "strimzi", "strimzi.yaml", "--keep-going")
    assert kept.code == 2
    assert set(manifests(kept)) == {"plain"}


def test_a_topic_that_is_defined_twice_is_refused(rackspan, files):
    files(again=STRIMZI)
    ran = rackspan("import", "strimzi", "strimzi.yaml", "again.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "again.yaml:1: topic Clicks_v1 of RackTopology east is defined before, at strimzi.yaml:1" in ran.errors


def test_lists_json_and_standard_input_are_read(rackspan, files):
    items = list(yaml.safe_load_all(STRIMZI.replace("0.50", "'0.50'")))
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    assert manifests(rackspan("import", "strimzi", "-", stdin=text)) == manifests(
        rackspan("import", "strimzi", "strimzi.yaml")
    )


# -- topicctl --------------------------------------------------------------------------------------------------------


def test_a_topic_of_topicctl_keeps_what_a_kafkatopic_can_say(rackspan, files):
    ran = rackspan("import", "topicctl", "topicctl.yaml", "east.yaml")
    assert ran.code == 0, ran.err
    found = manifests(ran)
    assert found["clicks"]["metadata"] == {
        "name": "clicks",
        "labels": {"team": "web"},
        "annotations": {"kubernetes.io/description": "What people click."},
    }
    assert found["clicks"]["spec"] == {
        "topologyRef": {"name": "east"},
        "partitions": 2,
        "replicationFactor": 2,
        "config": {"cleanup.policy": "compact", "preallocate": "true", "retention.ms": 7200000, "segment.bytes": 1500},
    }
    assert found["pinned"]["spec"]["placement"] == {"assignment": [[0, 3], [4, 2]]}
    here = "note: topicctl.yaml:1: topic clicks: "
    for told in (
        "not kept: meta.consumers: billing, search",
        "not kept: meta.labels bad: not a label! is no value of a label",
        "not kept: spec.retentionDropStepDuration: ",
        "not kept: spec.placement.strategy: in-rack keeps a partition's replicas in one rack",
        "not kept: spec.placement.picker: lowest-index",
        "not kept: spec.migration.throttleMB: brokers have one throttle: spec.reassignment.throttle 20000000 of the",
        "not kept: spec.migration.partitionBatchSize: ",
        "kept otherwise: meta.environment, meta.region: prod, eu",
    ):
        assert here + told in ran.err
    assert "note: east.yaml:1: cluster east: skipped: it is a cluster, and no topic: a RackTopology" in ran.err


def test_a_strategy_that_no_kafkatopic_knows_is_kept_by_the_replicas_it_made(rackspan, files, snapshot, tmp_path):
    prod = snapshot(
        cluster(topic("clicks", [0, 1], [1, 0], config={"retention.ms": "7200000"}), topic("pinned", [0, 3], [4, 2]))
    )
    ran = rackspan("import", "topicctl", "topicctl.yaml", "--snapshot", prod, *LEVELS)
    found = manifests(ran)
    assert found["clicks"]["spec"]["placement"] == {"assignment": [[0, 1], [1, 0]]}
    assert "topic clicks: kept otherwise: spec.placement.strategy: in-rack " in ran.err
    assert found["pinned"]["spec"]["placement"] == {"assignment": [[0, 3], [4, 2]]}
    (tmp_path / "all.yaml").write_text(ran.out)
    plan = rackspan("plan", "-f", "all.yaml", "--snapshot", prod, *LEVELS, "-o", "json")
    assert (plan.code, plan.json["partitions"]) == (0, [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("strategy: in-rack", "strategy: near"), 'spec.placement.strategy: "near" is no strategy of topicctl'),
        (("retentionMinutes: 120", "retentionMinutes: 120.5"), 'retentionMinutes: must be a whole number, not "120.5"'),
        (("cleanup.policy: compact", "retention.ms: 5"), "spec.settings.retention.ms: spec.retentionMinutes says it"),
        (("cluster: east\n", "clusters: east\n"), "meta.cluster: is missing"),
        (("throttleMB: 20", "throttleMB: -1"), "spec.migration.throttleMB: must be from 0 to"),
        (("consumers: [billing, search]", "consumers: [{}]"), "meta.consumers: must be texts, not a mapping"),
    ],
)
def test_a_bad_topic_of_topicctl_is_told(rackspan, files, change, said):
    files(topicctl=TOPICCTL.replace(*change, 1))
    ran = rackspan("import", "topicctl", "topicctl.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert any(one.startswith("topicctl.yaml:") and said in one for one in ran.errors), ran.err


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("[[0, 3]]", "has 1 row, for 2 partitions"),
        ("[[0, 3], [4]]", "row 1 names 1 broker, for a replicationFactor of 2"),
        ("[[0, 3], [4, 4]]", "row 1 names a broker twice"),
        ("[[0, 3], [4, x]]", 'row 1: must be broker ids, not "x"'),
        ("[[0, 3], 4]", 'row 1: must be a list, not "4"'),
    ],
)
def test_a_static_assignment_has_to_fit(rackspan, files, rows, said):
    files(topicctl=TOPICCTL.replace("[[0, 3], [4, 2]]", rows))
    ran = rackspan("import", "topicctl", "topicctl.yaml")
    assert any(f"spec.placement.staticAssignments: {said}" in one for one in ran.errors), ran.err


def test_two_clusters_of_one_name_are_not_mixed(rackspan, files):
    files(stage=TOPICCTL.replace("prod", "stage").replace("name: ", "name: other-"))
    ran = rackspan("import", "topicctl", "topicctl.yaml", "stage.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert (
        "stage.yaml:1: topic other-clicks: is of a cluster east in stage, eu, and others of one in prod, eu" in ran.err
    )


def test_a_silent_broker_is_not_planned_around(rackspan, files, snapshot):
    prod = snapshot(cluster(topic("pinned", [0, 9], [4, 2])))
    ran = rackspan("import", "topicctl", "topicctl.yaml", "--snapshot", prod)
    assert ran.error == "broker 9 holds replicas and is not among the brokers"


# -- whatever is given -----------------------------------------------------------------------------------------------

BELL = "x\x1b[2J\u202e\r\n\x9b31m"


@pytest.mark.parametrize(
    "arguments",
    [
        ("strimzi", BELL),
        ("topicctl", "strimzi.yaml", "--topology-ref", BELL),
        ("strimzi", "strimzi.yaml", "--topology-ref", f"{BELL}=main", "--topology-ref", "a/b/c"),
        ("strimzi", "strimzi.yaml", "--namespace", BELL),
        ("strimzi", "strimzi.yaml", "--command-config", "x"),
        ("strimzi", "strimzi.yaml", "--topology-ref", "a", "--topology-ref", "b"),
        ("strimzi", "-", "-"),
        ("strimzi", "none"),
    ],
)
def test_a_bad_argument_is_one_harmless_line(rackspan, files, tmp_path, arguments):
    (tmp_path / "none").mkdir()
    ran = rackspan("import", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.errors) == 1
    assert all(letter.isprintable() or letter == "\n" for letter in ran.err)


def test_hostile_texts_in_files_stay_texts(rackspan, files):
    text = json.dumps(BELL)
    strimzi = STRIMZI.replace("owner: web@example.com", f"owner: {text}").replace("colour: red", f"{text}: 1")
    files(strimzi=strimzi, topicctl=TOPICCTL.replace("billing", text).replace("What people click.", "What?\\e[2J"))
    for source in ("strimzi", "topicctl"):
        ran = rackspan("import", source, f"{source}.yaml")
        assert ran.code == 0, ran.err
        assert all(letter.isprintable() or letter == "\n" for letter in ran.err + ran.out)


def test_directories_are_read_in_order_without_what_is_hidden(rackspan, files, tmp_path):
    for name in ("b/two.yml", "a/one.yaml", ".git/three.yaml", "a/.four.yaml", "a/five.txt"):
        (tmp_path / "dir" / name).parent.mkdir(parents=True, exist_ok=True)
        stem = name.split("/")[1].strip(".").split(".")[0]
        text = f"kind: KafkaTopic\nmetadata: {{name: {stem}}}\nspec: {{partitions: 1, replicas: 1}}\n"
        (tmp_path / "dir" / name).write_text(f"apiVersion: kafka.strimzi.io/v1\n{text}")
    ran = rackspan("import", "strimzi", "dir", "dir/a/one.yaml", "--topology-ref", "main")
    assert list(manifests(ran)) == ["one", "two"]
