"""`rackspan import strimzi` and `topicctl` convert files to KafkaTopics and report what these cannot express."""

import json
from typing import ClassVar

import pytest
import yaml
from tests.support.command import cluster, topic

from rackspan.api.meta import ObjectKey
from rackspan.cli.actions import importing_topics
from rackspan.core.snapshot import tree_of
from rackspan.snapshots import parse_snapshot

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


def test_strimzi_topic_is_converted_and_unsupported_fields_are_reported(rackspan, files):
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
                "min.cleanable.dirty.ratio": "0.5",
                "preallocate": "false",
                "retention.ms": 7200000,
            },
        },
    }
    assert found["plain"]["spec"] == {"topologyRef": {"name": "east"}, "partitions": 1, "replicationFactor": 2}
    here = "note: strimzi.yaml:1: topic Clicks_v1: "
    for told in (
        "not kept: config flush.ms: is null",
        "not kept: metadata.labels app.kubernetes.io/managed-by: it marks the object as a tool's own",
        "not kept: metadata.ownerReferences: the new object has no owner",
        "not kept: spec.colour: is not known",
        "converted: metadata.annotations strimzi.io/pause-reconciliation: rackspan.dev/paused",
    ):
        assert here + told in ran.err
    assert "note: strimzi.yaml:35: Kafka east: skipped: it is not a KafkaTopic of kafka.strimzi.io" in ran.err
    assert "last-applied" not in ran.out


def test_options_choose_cluster_namespace_and_topology_of_strimzi_topics(rackspan, files):
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
    assert "topic plain: skipped: it is of cluster shop/east" in west.err


def test_partitions_and_replicas_that_strimzi_leaves_to_brokers_come_from_the_cluster(rackspan, files, snapshot):
    files(strimzi="apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {name: a}\nspec: {}\n")
    blind = rackspan("import", "strimzi", "strimzi.yaml", "--topology-ref", "main")
    assert (blind.code, blind.out) == (2, "")
    assert "error: strimzi.yaml:1: topic a: spec.partitions and spec.replicas are left to the brokers" in blind.err
    prod = snapshot(cluster(topic("a", [0, 3], [4, 2])))
    ran = rackspan("import", "strimzi", "strimzi.yaml", "--topology-ref", "main", "--snapshot", prod, *LEVELS)
    assert ran.code == 0, ran.err
    assert manifests(ran)["a"]["spec"] == {"topologyRef": {"name": "main"}, "partitions": 2, "replicationFactor": 2}
    assert "differs" not in ran.err


def test_values_in_kafka_override_different_values_of_the_definition_with_a_note(rackspan, files, snapshot, tmp_path):
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
        "differs: config min.cleanable.dirty.ratio: the definition says 0.5, in Kafka it is not set; it is left out",
    ):
        assert f"topic Clicks_v1: {told}" in ran.err
    assert "topic plain: would change: topic: Kafka has no such topic: applying the manifest creates it" in ran.err
    assert ran.err.splitlines()[-1].endswith(
        "applying them creates 1 topic; the plan of the others has 0 moves, 0 reorders and 0 new partitions"
    )
    (tmp_path / "all.yaml").write_text(ran.out)
    assert rackspan("plan", "-f", "all.yaml", "--snapshot", prod, *LEVELS, "-o", "json").json["moves"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("partitions: 2", "partitions: many"), '18: spec.partitions: must be a whole number, not "many"'),
        (("partitions: 2", "partitions: 0"), '18: spec.partitions: must be from 1 to 100,000, not "0"'),
        (("topicName: Clicks_v1", "topicName: a b"), '17: spec.topicName: "a b" is not a valid topic name'),
        (("topicName: Clicks_v1", "topicName: 7"), '17: spec.topicName: must be a text, not "7"'),
        (("flush.ms: null", "flush.ms: {}"), "25: spec.config.flush.ms: must be a value or a list, not a mapping"),
        (("  replicas: 2", "\treplicas: 2"), "19: is not YAML: found a tab character that violates indentation"),
        (("  uid: 1-2-3", "  name: twice"), '15: the key "name" is given twice'),
        (("  name: clicks", "  named: clicks"), "4: metadata.name: is missing"),
        (("strimzi.io/cluster: east\n    team", "team"), "1: topic Clicks_v1: has no label strimzi.io/cluster"),
    ],
)  # fmt: skip
def test_invalid_document_is_rejected_with_its_line_and_keep_going_imports_the_others(rackspan, files, change, said):
    files(strimzi=STRIMZI.replace(*change))
    ran = rackspan("import", "strimzi", "strimzi.yaml")
    assert (ran.code, ran.out) == (2, "")
    first, last = ran.errors
    assert first.startswith(f"strimzi.yaml:{said}")
    assert last == "nothing is written, because 1 document cannot be imported"
    kept = rackspan("import", "strimzi", "strimzi.yaml", "--keep-going")
    assert kept.code == 2
    assert set(manifests(kept)) == {"plain"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("name: clicks", "name: ${TOPIC}"), '4: metadata.name: "${TOPIC}"'),
        (("namespace: shop", "namespace: $(NAMESPACE)"), '5: metadata.namespace: "$(NAMESPACE)"'),
        (("cluster: east\n    team", "cluster: ${KAFKA_CLUSTER}\n    team"), '7: metadata.labels: "${KAFKA_CLUSTER}"'),
        (("team: web", "team: '{{ .Values.team }}'"), '8: metadata.labels: "{{ .Values.team }}"'),
        (("Clicks_v1", "$TOPIC"), '17: spec.topicName: "$TOPIC"'),
        (("partitions: 2", "partitions: ${PARTITIONS:-3}"), '18: spec.partitions: "${PARTITIONS:-3}"'),
        (("7200000", "<%= hours %>"), '21: spec.config: "<%= hours %>"'),
        (("[compact, delete]", "[compact, '{% policy %}']"), '24: spec.config: "{% policy %}"'),
        (("flush.ms: null", '"#{key}#": 1'), '25: spec.config: "#{key}#"'),
    ],
)  # fmt: skip
def test_placeholder_is_rejected_with_its_line(rackspan, files, change, said):
    files(strimzi=STRIMZI.replace(*change, 1))
    ran = rackspan("import", "strimzi", "strimzi.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.errors[0] == f"strimzi.yaml:{said} has a placeholder: this is a template: render it first"


@pytest.mark.parametrize(
    ("change", "line", "tag"),
    [
        (("partitions: 2", "partitions: {{ .Values.n }}"), 18, "{{ .Values.n }}"),
        (("spec:\n  topicName", "{{- if .Values.on }}\nspec:\n  topicName"), 16, "{{- if .Values.on }}"),
        (("  config:", "  {% include config %}\n  config:"), 20, "{% include config %}"),
    ],
)
def test_template_that_is_not_yaml_is_rejected_as_a_template(rackspan, files, change, line, tag):
    files(strimzi=STRIMZI.replace(*change, 1))
    ran = rackspan("import", "strimzi", "strimzi.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.errors[0] == f'strimzi.yaml:{line}: "{tag}": this is a template: render it first'


def test_placeholder_in_an_annotation_or_a_description_is_accepted(rackspan, files):
    files(
        strimzi=STRIMZI.replace("web@example.com", "https://grafana.example.com/${team}"),
        topicctl=TOPICCTL.replace("What people click.", "Costs ${COST}."),
    )
    for source in ("strimzi", "topicctl"):
        assert rackspan("import", source, f"{source}.yaml").code == 0


OTHERS = {
    "a list": ("- a\n- b\n", "a document: skipped: an object is a mapping, not a list"),
    "a text": ("# Topics\nof the shop\n", 'a document: skipped: an object is a mapping, not "of the shop"'),
    "another group": (
        "apiVersion: rackspan.dev/v1alpha1\nkind: KafkaTopic\nmetadata: {name: a}\n",
        "KafkaTopic a: skipped: it is a KafkaTopic of rackspan.dev/v1alpha1, not of kafka.strimzi.io",
    ),
    "a template of OpenShift": (
        ("apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: topics}\n"
        "objects: [{kind: KafkaTopic, metadata: {name: '${NAME}'}}, {kind: KafkaTopic}, {kind: Kafka}]\n"),
        "Template topics: skipped: it holds 2 KafkaTopics, and is a template: render it first, with oc process",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), OTHERS.values(), ids=OTHERS)
def test_document_that_is_not_a_topic_is_skipped_with_a_note(rackspan, files, text, said):
    files(strimzi=f"{text}---\n{STRIMZI}")
    ran = rackspan("import", "strimzi", "strimzi.yaml")
    assert ran.code == 0, ran.err
    assert set(manifests(ran)) == {"clicks", "plain"}
    assert f": {said}" in ran.err
    strict = rackspan("import", "strimzi", "strimzi.yaml", "--strict")
    assert (strict.code, strict.out) == (2, "")


UNREADABLE = {
    "a file cut off": ("meta:\n  name: clicks\n  labels: {team: [", "is not YAML"),
    "a key twice": ("kind: Kafka\nspec: 1\nspec: 2\n", 'the key "spec" is given twice'),
    "a Helm template": ("{{- with .Values }}\nkind: Kafka\n", '"{{- with .Values }}": this is a template'),
    "no number of JSON": ("kind: Kafka\nspec: .inf\n", '".inf" is not a number that JSON has'),
}


@pytest.mark.parametrize("source", ["strimzi", "topicctl"])
@pytest.mark.parametrize(("text", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_nothing_is_written_if_a_document_cannot_be_read_and_keep_going_imports_the_others(
    rackspan, files, source, text, said
):
    files(**{source: {"strimzi": STRIMZI, "topicctl": TOPICCTL}[source], "other": text})
    command = ("import", source, f"{source}.yaml", "other.yaml")
    ran = rackspan(*command)
    assert (ran.code, ran.out) == (2, "")
    assert ran.errors[0].startswith("other.yaml:")
    assert said in ran.errors[0]
    assert "clicks" in rackspan(*command, "--keep-going").out


@pytest.mark.parametrize("source", ["strimzi", "topicctl"])
def test_files_without_a_topic_are_an_error_that_names_what_was_skipped(rackspan, files, source):
    files(other="kind: Service\nmetadata: {name: web}\n")
    ran = rackspan("import", source, "other.yaml")
    assert (ran.code, ran.out, ran.error) == (2, "", "nothing in the files can be imported")
    assert "note: other.yaml:1: " in ran.err


@pytest.mark.parametrize("source", ["strimzi", "topicctl"])
def test_files_of_other_clusters_are_not_said_to_hold_no_topics(rackspan, files, source):
    ran = rackspan("import", source, f"{source}.yaml", "--cluster", "west")
    assert (ran.code, ran.error) == (2, "nothing in the files can be imported")
    assert "skipped: it is of cluster" in ran.err


def test_topicctl_import_skips_other_documents_and_rejects_a_template(rackspan, files):
    files(topicctl=f"- a\n---\n{TOPICCTL}")
    ran = rackspan("import", "topicctl", "topicctl.yaml")
    assert set(manifests(ran)) == {"clicks", "pinned"}
    assert "topicctl.yaml:1: a document: skipped: an object is a mapping, not a list" in ran.err
    files(topicctl=TOPICCTL.replace("partitions: 2", "partitions: {{ n }}", 1))
    ran = rackspan("import", "topicctl", "topicctl.yaml")
    assert (ran.code, ran.errors[0]) == (2, 'topicctl.yaml:11: "{{ n }}": this is a template: render it first')


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("__debezium-heartbeat.shop", True),
        ("__my_own", True),
        ("_schemas", True),
        ("__consumer_offsets", False),
        ("__transaction_state", False),
        ("__share_group_state", False),
        ("__strimzi_store_topic", False),
        ("__strimzi-topic-operator-kstreams-topic-store-changelog", False),
    ],
)
def test_import_skips_only_internal_topics_of_kafka_and_strimzi(rackspan, files, snapshot, name, imported):
    files(strimzi=STRIMZI.replace("Clicks_v1", name), topicctl=TOPICCTL.replace("name: clicks", f"name: {name}"))
    prod = snapshot(cluster(topic(name, [0, 3]), topic("a", [0, 3])))
    for arguments in (
        ("strimzi", "strimzi.yaml"),
        ("topicctl", "topicctl.yaml"),
        ("cluster", "--snapshot", prod, "--topology-ref", "main"),
    ):
        ran = rackspan("import", *arguments)
        assert ran.code == 0, ran.err
        assert (name in ran.out) == imported
        remarked = f"topic {name}: not kept: topic: it is internal: the operator refuses it unless" in ran.err
        assert remarked == (imported and name.startswith("__"))


JSON_TOPIC = r"""{"apiVersion": "kafka.strimzi.io\/v1", "kind": "KafkaTopic",
  "metadata": {"name": "clicks", "annotations": {"owner": "\ud83d\ude00 \u00e4\t\"\\", "mail": "a\/b\u007f"}},
  "spec": {"partitions": 2, "replicas": 2.0, "config": {"retention.ms": 1e6}}}"""


@pytest.mark.parametrize(
    "bytes_of",
    [
        lambda text: text.encode(),
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: ("\ufeff" + text).encode("utf-16-be"),
        lambda text: ("# of the shop\n---\n\ufeff" + text + "\n---\n").encode(),
    ],
    ids=["UTF-8", "with a BOM", "UTF-16", "UTF-16, big end first", "a BOM within"],
)
@pytest.mark.parametrize("between", ["", "\n", "\n---\n", "\n\n"])
def test_json_documents_are_read_in_any_encoding_and_with_any_separator(rackspan, files, tmp_path, bytes_of, between):
    text = JSON_TOPIC + between + JSON_TOPIC.replace('"clicks"', '"other"')
    (tmp_path / "topics.json").write_bytes(bytes_of(text))
    ran = rackspan("import", "strimzi", "topics.json", "--topology-ref", "main")
    assert ran.code == 0, ran.err
    assert set(manifests(ran)) == {"clicks", "other"}
    clicks = manifests(ran)["clicks"]
    assert clicks["metadata"]["annotations"] == {"owner": '😀 ä\t"\\', "mail": "a/b\x7f"}
    assert clicks["spec"]["replicationFactor"] == 2
    assert clicks["spec"]["config"] == {"retention.ms": 1000000}


def test_topic_that_is_defined_twice_is_rejected(rackspan, files):
    files(again=STRIMZI)
    ran = rackspan("import", "strimzi", "strimzi.yaml", "again.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "again.yaml:1: topic Clicks_v1 of RackTopology east is defined before, at strimzi.yaml:1" in ran.errors


def test_list_on_standard_input_is_read(rackspan, files):
    items = list(yaml.safe_load_all(STRIMZI))
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    assert manifests(rackspan("import", "strimzi", "-", stdin=text)) == manifests(
        rackspan("import", "strimzi", "strimzi.yaml")
    )


# -- topicctl --------------------------------------------------------------------------------------------------------


def test_topicctl_topic_is_converted_and_unsupported_fields_are_reported(rackspan, files):
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
        "not kept: meta.labels bad: not a label! is not a valid label value",
        "not kept: spec.retentionDropStepDuration: ",
        "not kept: spec.placement.strategy: in-rack keeps a partition's replicas in one rack",
        "not kept: spec.placement.picker: lowest-index",
        "not kept: spec.migration.throttleMB: brokers have one throttle: spec.reassignment.throttle 20000000 of the",
        "not kept: spec.migration.partitionBatchSize: ",
        "converted: meta.environment, meta.region: prod/eu",
    ):
        assert here + told in ran.err
    assert "note: east.yaml:1: cluster east: skipped: it is a cluster, and no topic: a RackTopology" in ran.err


def test_unsupported_strategy_of_topicctl_is_replaced_by_the_current_assignment(rackspan, files, snapshot, tmp_path):
    prod = snapshot(
        cluster(topic("clicks", [0, 1], [1, 0], config={"retention.ms": "7200000"}), topic("pinned", [0, 3], [4, 2]))
    )
    ran = rackspan("import", "topicctl", "topicctl.yaml", "--snapshot", prod, *LEVELS)
    found = manifests(ran)
    assert found["clicks"]["spec"]["placement"] == {"assignment": [[0, 1], [1, 0]]}
    assert "topic clicks: converted: spec.placement.strategy: in-rack " in ran.err
    assert found["pinned"]["spec"]["placement"] == {"assignment": [[0, 3], [4, 2]]}
    (tmp_path / "all.yaml").write_text(ran.out)
    plan = rackspan("plan", "-f", "all.yaml", "--snapshot", prod, *LEVELS, "-o", "json")
    assert (plan.code, plan.json["partitions"]) == (0, [])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("strategy: in-rack", "strategy: near"), 'spec.placement.strategy: "near" is not a strategy of topicctl'),
        (("retentionMinutes: 120", "retentionMinutes: 120.5"), 'retentionMinutes: must be a whole number, not "120.5"'),
        (("cleanup.policy: compact", "retention.ms: 5"), "spec.settings.retention.ms: spec.retentionMinutes says it"),
        (("cluster: east\n", "clusters: east\n"), "meta.cluster: is missing"),
        (("throttleMB: 20", "throttleMB: -1"), "spec.migration.throttleMB: must be from 0 to"),
        (("consumers: [billing, search]", "consumers: [{}]"), "meta.consumers: must be texts, not a mapping"),
    ],
)
def test_invalid_topic_of_topicctl_is_rejected_with_a_message(rackspan, files, change, said):
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
def test_invalid_static_assignment_of_topicctl_is_rejected(rackspan, files, rows, said):
    files(topicctl=TOPICCTL.replace("[[0, 3], [4, 2]]", rows))
    ran = rackspan("import", "topicctl", "topicctl.yaml")
    assert any(f"spec.placement.staticAssignments: {said}" in one for one in ran.errors), ran.err


CLUSTERS_OF_ONE_NAME = (
    "error: stage.yaml:1: topic other-clicks: clusters prod/eu/east and stage/eu/east would both be RackTopology east: "
    "pass --cluster stage/eu/east to import one of them, or --topology-ref stage/eu/east=NAME"
)


def test_clusters_of_the_same_name_are_rejected_unless_selected_or_renamed(rackspan, files):
    files(stage=TOPICCTL.replace("prod", "stage").replace("name: ", "name: other-"))
    both = ("import", "topicctl", "topicctl.yaml", "stage.yaml")
    ran = rackspan(*both)
    assert (ran.code, ran.out) == (2, "")
    assert CLUSTERS_OF_ONE_NAME in ran.err
    one = rackspan(*both, "--cluster", "stage/eu/east")
    assert set(manifests(one)) == {"other-clicks", "other-pinned"}
    named = rackspan(*both, "--topology-ref", "stage/eu/east=stage")
    assert {name: found["spec"]["topologyRef"]["name"] for name, found in manifests(named).items()} == {
        "clicks": "east",
        "pinned": "east",
        "other-clicks": "stage",
        "other-pinned": "stage",
    }


def test_clusters_with_the_same_object_name_are_rejected_unless_renamed(rackspan, files):
    files(topicctl=TOPICCTL.replace("east", "east_1") + "---\n" + TOPICCTL.replace("east", "east-1"))
    ran = rackspan("import", "topicctl", "topicctl.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "clusters prod/eu/east_1 and prod/eu/east-1 would both be RackTopology east-1" in ran.err
    named = rackspan("import", "topicctl", "topicctl.yaml", "--topology-ref", "east_1=first")
    assert {one["spec"]["topologyRef"]["name"] for one in manifests(named).values()} == {"first", "east-1"}


STAGING = STRIMZI.replace("namespace: shop", "namespace: staging").replace(
    "name: plain", "name: plain\n  namespace: staging"
)


def test_strimzi_clusters_of_the_same_name_in_two_namespaces_are_separate_clusters(rackspan, files, snapshot):
    files(strimzi=STRIMZI.replace("name: plain", "name: plain\n  namespace: shop"), staging=STAGING)
    both = ("import", "strimzi", "strimzi.yaml", "staging.yaml")
    ran = rackspan(*both)
    assert ran.code == 0, ran.err
    found = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in yaml.safe_load_all(ran.out)]
    assert found == [("shop", "clicks"), ("shop", "plain"), ("staging", "clicks"), ("staging", "plain")]
    prod = snapshot(cluster(topic("Clicks_v1", [0, 1, 3], [4, 2, 0])))
    compared = rackspan(*both, "--snapshot", prod, *LEVELS)
    assert (compared.code, compared.out) == (2, "")
    assert compared.error == "the files are of several clusters: shop/east, staging/east"
    one = rackspan(*both, "--snapshot", prod, *LEVELS, "--cluster", "shop/east")
    assert {found["metadata"]["namespace"] for found in manifests(one).values()} == {"shop"}


@pytest.mark.parametrize(
    "options",
    [("--namespace", "kafka"), ("--topology-ref", "kafka/main"), ("--topology-ref", "east=kafka/main")],
)
def test_two_clusters_are_not_imported_for_one_racktopology(rackspan, files, options):
    files(staging=STAGING)
    ran = rackspan("import", "strimzi", "strimzi.yaml", "staging.yaml", *options)
    assert (ran.code, ran.out) == (2, "")
    assert "clusters shop/east and staging/east would both be RackTopology" in ran.err


def test_import_topicctl_with_a_missing_broker_fails(rackspan, files, snapshot):
    prod = snapshot(cluster(topic("pinned", [0, 9], [4, 2])))
    ran = rackspan("import", "topicctl", "topicctl.yaml", "--snapshot", prod)
    assert ran.error == "broker 9 holds replicas and is not among the brokers"


# -- topics that have a KafkaTopic -----------------------------------------------------------------------------------


@pytest.fixture
def live(snapshot, monkeypatch):
    """The RackTopology kafka/main: a cluster in which two topics have a KafkaTopic."""
    document = cluster(topic("Clicks_v1", [0, 3], [4, 2]), topic("clicks", [0, 3], [4, 2]), topic("plain", [0, 3]))
    document["topics"] += [topic("__listed", [0, 3]), topic("__other", [0, 3])]
    found = parse_snapshot(json.dumps(document).encode())

    class Live:
        tree = tree_of(found.brokers)
        internal_topics = ("__listed",)
        objects: ClassVar = {"Clicks_v1": ObjectKey("shop", "clicks"), "clicks": ObjectKey("shop", "other")}

        def snapshot(self):
            return found

    def at(name, _kubeconfig):
        assert name == "kafka/main"
        return Live()

    monkeypatch.setattr(importing_topics.LiveTopology, "at", at)


MAIN = ("--topology", "kafka/main")


@pytest.mark.parametrize(
    ("options", "written", "reference"),
    [
        (MAIN, "kafka", {"name": "main"}),
        ((*MAIN, "--namespace", "kafka"), "kafka", {"name": "main"}),
        ((*MAIN, "--namespace", "shop"), "shop", {"name": "main", "namespace": "kafka"}),
        ((*MAIN, "--topology-ref", "main"), None, {"name": "main"}),
        ((*MAIN, "--topology-ref", "kafka/main"), None, {"name": "main", "namespace": "kafka"}),
    ],
)
def test_topologyref_has_a_namespace_only_if_it_differs(rackspan, live, options, written, reference):
    (plain,) = manifests(rackspan("import", "cluster", "--topic", "plain|[Cc].*", *options)).values()
    assert plain["metadata"].get("namespace") == written
    assert plain["spec"]["topologyRef"] == reference


def test_import_has_no_remark_about_internal_topics_that_the_topology_lists(rackspan, live):
    ran = rackspan("import", "cluster", "--topic", "__.*", *MAIN)
    (note,) = [line for line in ran.err.splitlines() if "not kept" in line]
    assert note == (
        "note: kafka/main: topic __other: not kept: topic: it is internal: the operator refuses it unless "
        "spec.internalTopics of the RackTopology lists it"
    )
    assert rackspan("import", "cluster", "--topic", "__listed", *MAIN, "--strict").code == 0
    assert rackspan("import", "cluster", "--topic", "__other", *MAIN, "--strict").code == 2


def test_topic_with_a_kafkatopic_is_skipped(rackspan, files, live):
    ran = rackspan("import", "cluster", "--topic", "plain|[Cc].*", *MAIN)
    assert ran.code == 0, ran.err
    (plain,) = manifests(ran).values()
    assert plain["metadata"] == {"name": "plain", "namespace": "kafka"}
    assert plain["spec"]["topologyRef"] == {"name": "main"}
    told = "topic Clicks_v1: skipped: it has a KafkaTopic, shop/clicks, which may say more"
    assert f"note: kafka/main: {told}" in ran.err
    assert "imported 1 of 3 topics, 2 skipped; applying them changes nothing" in ran.err
    strict = rackspan("import", "cluster", *MAIN, "--strict")
    assert (strict.code, strict.out) == (2, "")
    theirs = rackspan("import", "strimzi", "strimzi.yaml", *MAIN)
    assert list(manifests(theirs)) == ["plain"]
    assert f"note: strimzi.yaml:1: {told}" in theirs.err
    assert manifests(theirs)["plain"]["spec"]["topologyRef"] == {"name": "main", "namespace": "kafka"}
    none = rackspan("import", "topicctl", "topicctl.yaml", *MAIN, "--topology-ref", "other")
    assert {name: one["spec"]["topologyRef"] for name, one in manifests(none).items()} == {"pinned": {"name": "other"}}


def test_import_with_topology_rejects_options_that_the_racktopology_sets(rackspan, files, live):
    for option in ("--levels", "--snapshot", "--bootstrap-server"):
        for command in (("cluster",), ("strimzi", "strimzi.yaml")):
            ran = rackspan("import", *command, *MAIN, option, "kafka:9092")
            assert (ran.code, ran.error) == (2, f"{option} is not for --topology")


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
def test_invalid_argument_of_import_gives_one_printable_error_line(rackspan, files, tmp_path, arguments):
    (tmp_path / "none").mkdir()
    ran = rackspan("import", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.errors) == 1
    assert all(letter.isprintable() or letter == "\n" for letter in ran.err)


def test_hostile_texts_in_files_are_printed_without_control_characters(rackspan, files):
    text = json.dumps(BELL)
    strimzi = STRIMZI.replace("owner: web@example.com", f"owner: {text}").replace("colour: red", f"{text}: 1")
    files(strimzi=strimzi, topicctl=TOPICCTL.replace("billing", text).replace("What people click.", "What?\\e[2J"))
    for source in ("strimzi", "topicctl"):
        ran = rackspan("import", source, f"{source}.yaml")
        assert ran.code == 0, ran.err
        assert all(letter.isprintable() or letter == "\n" for letter in ran.err + ran.out)


def test_directories_are_read_in_order_without_hidden_files(rackspan, files, tmp_path):
    for name in ("b/two.yml", "a/one.yaml", ".git/three.yaml", "a/.four.yaml", "a/five.txt"):
        (tmp_path / "dir" / name).parent.mkdir(parents=True, exist_ok=True)
        stem = name.split("/")[1].strip(".").split(".")[0]
        text = f"kind: KafkaTopic\nmetadata: {{name: {stem}}}\nspec: {{partitions: 1, replicas: 1}}\n"
        (tmp_path / "dir" / name).write_text(f"apiVersion: kafka.strimzi.io/v1\n{text}")
    ran = rackspan("import", "strimzi", "dir", "dir/a/one.yaml", "--topology-ref", "main")
    assert list(manifests(ran)) == ["one", "two"]
