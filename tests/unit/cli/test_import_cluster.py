"""`rackspan import cluster`: manifests of the topics of a cluster, and the proof that they change nothing."""

import json
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml
from tests.support.command import cluster, topic

from rackspan.cli.shared.manifest_files import write_new_files

LEVELS = ("--levels", "region,zone,rack")
FAIR = topic("orders", [0, 3], [4, 2], config={"min.insync.replicas": 1, "retention.ms": "60000"})
UNFAIR = topic("payments", [0, 1, 3], [1, 0, 2], [4, 2, 5])
INTERNAL = topic("__consumer_offsets", [0, 3])
MIXED = topic("odd", [0, 3], [1, 4, 2])
AS = ("--topology-ref", "main")


@pytest.fixture
def prod(snapshot):
    return snapshot(cluster(FAIR, UNFAIR, INTERNAL))


def manifests(ran):
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all(ran.out)}


def planned(rackspan, snapshot, ran, tmp_path, *options):
    """Return the plan of the imported manifests for the same cluster."""
    (tmp_path / "topics.yaml").write_text(ran.out)
    return rackspan("plan", "-f", "topics.yaml", "--snapshot", snapshot, *LEVELS, "-o", "json", *options)


def test_import_writes_a_manifest_per_topic_and_their_plan_changes_nothing(rackspan, prod, tmp_path):
    ran = rackspan("import", "cluster", "--snapshot", prod, *LEVELS, *AS, "--namespace", "kafka")
    assert ran.code == 0, ran.err
    found = manifests(ran)
    assert found["orders"] == {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {"name": "orders", "namespace": "kafka"},
        "spec": {
            "topologyRef": {"name": "main"},
            "partitions": 2,
            "replicationFactor": 2,
            "config": {"min.insync.replicas": 1, "retention.ms": 60000},
        },
    }
    assert found["payments"]["spec"]["placement"] == {"assignment": [[0, 1, 3], [1, 0, 2], [4, 2, 5]]}
    assert set(found) == {"orders", "payments"}
    plan = planned(rackspan, prod, ran, tmp_path)
    assert (plan.code, plan.json["moves"], plan.json["reorders"], plan.json["partitions"]) == (0, 0, 0, [])


def test_import_reports_skipped_topics_and_pinned_assignments(rackspan, prod):
    ran = rackspan("import", "cluster", "--snapshot", prod, *LEVELS, *AS)
    told = "skipped: the topics of Kafka and of Strimzi's Topic Operator have no object"
    assert f"note: prod.json: topic __consumer_offsets: {told}" in ran.err
    assert (
        "note: prod.json: topic payments: converted: placement: pinned by spec.placement.assignment: 2 of 3 "
        "partitions are not spread fairly; a fair spread copies 2 replicas" in ran.err
    )
    assert ran.err.splitlines()[-1] == (
        "note: imported 2 of 3 topics, 1 skipped; applying them changes nothing: the plan has 0 moves, 0 reorders and "
        "0 new partitions"
    )
    assert "# converted: placement: pinned by spec.placement.assignment: 2 of 3 partitions" in ran.out


def test_assignment_never_leaves_the_repair_to_the_plan(rackspan, prod, tmp_path):
    ran = rackspan("import", "cluster", "--snapshot", prod, *LEVELS, *AS, "--assignment", "never")
    assert "placement" not in manifests(ran)["payments"]["spec"]
    assert "topic payments: would change: placement: 2 of 3 partitions are not spread fairly" in ran.err
    assert ran.err.splitlines()[-1].endswith("the plan has 2 moves, 0 reorders and 0 new partitions")
    plan = planned(rackspan, prod, ran, tmp_path)
    assert (plan.code, plan.json["moves"]) == (0, 2)


def test_assignment_always_pins_every_placement(rackspan, prod, tmp_path):
    ran = rackspan("import", "cluster", "--snapshot", prod, *AS, "--assignment", "always")
    assert manifests(ran)["orders"]["spec"]["placement"] == {"assignment": [[0, 3], [4, 2]]}
    assert planned(rackspan, prod, ran, tmp_path).json["moves"] == 0


def test_topic_with_mixed_replication_factors_is_skipped_unless_assignment_is_never(rackspan, snapshot, tmp_path):
    file = snapshot(cluster(FAIR, MIXED))
    ran = rackspan("import", "cluster", "--snapshot", file, *LEVELS, *AS)
    assert set(manifests(ran)) == {"orders"}
    assert (
        "topic odd: skipped: its partitions have 2 to 3 replicas, and a KafkaTopic has one replicationFactor" in ran.err
    )
    loose = rackspan("import", "cluster", "--snapshot", file, *LEVELS, *AS, "--assignment", "never")
    assert manifests(loose)["odd"]["spec"]["replicationFactor"] == 3
    assert rackspan("import", "cluster", "--snapshot", file, *LEVELS, *AS, "--strict").code == 2


def test_topic_whose_name_is_not_an_object_name_gets_a_unique_one_and_keeps_its_topic_name(rackspan, snapshot):
    names = ["Orders_v1", "orders-v1", "a.b", "A.B", "._-", "x" * 249, "_x"]
    file = snapshot(cluster(*(topic(name, [0, 3]) for name in names)))
    ran = rackspan("import", "cluster", "--snapshot", file, *AS)
    found = {one["spec"].get("topicName", one["metadata"]["name"]): one for one in yaml.safe_load_all(ran.out)}
    assert set(found) == set(names)
    objects = {name: one["metadata"]["name"] for name, one in found.items()}
    assert len(set(objects.values())) == len(names)
    assert (objects["orders-v1"], objects["a.b"], objects["x" * 249]) == ("orders-v1", "a.b", "x" * 249)
    assert objects["Orders_v1"].startswith("orders-v1-")
    assert objects["_x"] == "x"
    turned = snapshot(cluster(*(topic(name, [0, 3]) for name in reversed(names))))
    assert rackspan("import", "cluster", "--snapshot", turned, *AS).out == ran.out


def test_inherited_min_insync_replicas_is_not_written(rackspan, snapshot):
    inherits = {**topic("a", [0, 3], config={"min.insync.replicas": "1"}), "inherited": ["min.insync.replicas"]}
    file = snapshot(cluster(inherits, topic("b", [0, 3], config={"min.insync.replicas": "1"})))
    found = manifests(rackspan("import", "cluster", "--snapshot", file, *AS))
    assert "config" not in found["a"]["spec"]
    assert found["b"]["spec"]["config"] == {"min.insync.replicas": 1}
    copy = rackspan("snapshot", "--snapshot", file)
    assert copy.json["topics"][0]["inherited"] == ["min.insync.replicas"]
    assert "inherited" not in copy.json["topics"][1]


def test_config_that_a_kafkatopic_cannot_hold_is_left_out_with_a_note(rackspan, snapshot):
    config = {
        "min.insync.replicas": "5",
        "leader.replication.throttled.replicas": "0:0",
        "long": "x" * 5000,
        "flush.ms": "007",
        "huge": "99999999999999999999",
    }
    ran = rackspan("import", "cluster", "--snapshot", snapshot(cluster(topic("a", [0, 3], config=config))), *AS)
    assert manifests(ran)["a"]["spec"]["config"] == {"flush.ms": "007", "huge": "99999999999999999999"}
    for key in ("min.insync.replicas", "leader.replication.throttled.replicas", "long"):
        assert f"topic a: not kept: config {key}: " in ran.err
    strict = rackspan("import", "cluster", "--snapshot", "prod.json", *AS, "--strict")
    assert (strict.code, strict.out) == (2, "")


HOSTILE = "x: y\n---\nkind: Secret\n#\x1b[2J\u2028'\"{{ .Values }} *a &b !!c"


def test_hostile_config_values_are_escaped_and_read_back_unchanged(rackspan, snapshot):
    config = {"a: b\n---\n": HOSTILE, "yes": "y", "n": "1e3", "1.5e3": "0o17", "empty": "", "null": "~", "=": "<<"}
    ran = rackspan("import", "cluster", "--snapshot", snapshot(cluster(topic("a", [0, 3], config=config))), *AS)
    (found,) = yaml.safe_load_all(ran.out)
    assert found["spec"]["config"] == config
    assert all(one.isprintable() or one == "\n" for one in ran.out)
    for text in ("y", "n", "1e3", "0o17", "1.5e3"):
        assert f" {text}\n" not in ran.out
        assert f" {text}:" not in ran.out


def test_json_output_of_import_has_summary_plan_and_topics(rackspan, prod):
    ran = rackspan("import", "cluster", "--snapshot", prod, *LEVELS, *AS, "-o", "json")
    assert ran.json["summary"] == {"topics": 3, "imported": 2, "skipped": 1, "refused": 0}
    assert ran.json["plan"] == {
        "moves": 0,
        "lowerBound": 0,
        "removals": 0,
        "reorders": 0,
        "newPartitions": 0,
        "problems": [],
    }
    by_topic = {one["topic"]: one for one in ran.json["topics"]}
    assert by_topic["__consumer_offsets"]["outcome"] == "Skipped"
    payments = by_topic["payments"]
    assert payments["outcome"] == "Imported"
    assert payments["manifest"]["spec"]["partitions"] == 3
    assert [(one["kind"], one["field"]) for one in payments["remarks"]] == [("Converted", "placement")]


def test_topic_option_imports_matching_topics_only(rackspan, prod):
    ran = rackspan("import", "cluster", "--snapshot", prod, *LEVELS, *AS, "--topic", "ord.*")
    assert set(manifests(ran)) == {"orders"}


def test_import_writes_all_files_or_none_and_replaces_files_only_with_overwrite(rackspan, prod, tmp_path):
    to = ("--output-dir", "out", "--namespace", "kafka")
    ran = rackspan("import", "cluster", "--snapshot", prod, *LEVELS, *AS, *to)
    assert (ran.code, ran.out) == (0, "")
    written = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.yaml"))
    assert written == ["kafka/orders.yaml", "kafka/payments.yaml"]
    (tmp_path / "out/kafka/orders.yaml").unlink()
    (tmp_path / "out/kafka/payments.yaml").write_text("mine")
    ran = rackspan("import", "cluster", "--snapshot", prod, *LEVELS, *AS, *to)
    assert ran.code == 2
    assert ran.error == "out/kafka/payments.yaml: is there already"
    assert not (tmp_path / "out/kafka/orders.yaml").exists()
    assert (tmp_path / "out/kafka/payments.yaml").read_text() == "mine"
    ran = rackspan("import", "cluster", "--snapshot", prod, *LEVELS, *AS, *to, "--overwrite")
    assert ran.code == 0
    assert "kind: KafkaTopic" in (tmp_path / "out/kafka/payments.yaml").read_text()
    assert rackspan("plan", "-f", "out", "--snapshot", prod, *LEVELS, "-o", "json").json["moves"] == 0


def test_interrupted_write_leaves_none_of_its_files(tmp_path):
    def texts():
        yield Path("a.yaml"), "a"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_new_files(tmp_path, MagicMock(items=texts), overwrite=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "the RackTopology is missing"),
        (("--topology-ref", "Main"), '--topology-ref "Main": "Main" is not a valid name of a RackTopology'),
        (("--topology-ref", "a/b/c"), '--topology-ref "a/b/c": write [NAMESPACE/]NAME'),
        ((*AS, "--namespace", "a.b"), '--namespace "a.b": is not a valid namespace name'),
        ((*AS, "--overwrite"), "--overwrite is for --output-dir"),
        ((*AS, "--output-dir", "out", "-o", "json"), "only one of --output-dir and -o json can be used"),
    ],
)
def test_invalid_options_of_import_cluster_are_rejected_in_one_line(rackspan, prod, arguments, said):
    ran = rackspan("import", "cluster", "--snapshot", prod, *LEVELS, *arguments)
    assert (ran.code, ran.out, ran.error) == (2, "", said)


def test_import_with_a_missing_broker_fails_unless_assignment_is_never(rackspan, snapshot):
    file = snapshot(cluster(topic("a", [0, 9])))
    ran = rackspan("import", "cluster", "--snapshot", file, *AS)
    assert (ran.code, ran.out) == (2, "")
    assert ran.error == "broker 9 holds replicas and is not among the brokers"
    assert rackspan("import", "cluster", "--snapshot", file, *AS, "--assignment", "never").code == 0


def test_assignment_always_writes_missing_brokers_and_reports_that_no_plan_can_keep_them(rackspan, snapshot):
    file = snapshot(cluster(topic("a", [0, 9], [8, 3])))
    refused = rackspan("import", "cluster", "--snapshot", file, *AS)
    assert refused.error == "brokers 8, 9 hold replicas and are not among the brokers"
    assert refused.hint == "wait until they are back, or pass --assignment always or never"
    ran = rackspan("import", "cluster", "--snapshot", file, *AS, "--assignment", "always")
    assert ran.code == 2
    assert "assignment:\n    - [0, 9]\n    - [8, 3]\n" in ran.out
    assert ran.error == (
        "the plan cannot be made whole: topic a: partition 0 is assigned to [0, 9]: brokers 8, 9 are not there, "
        "name other ones"
    )


# -- plan -f ---------------------------------------------------------------------------------------------------------


def test_plan_follows_the_spec_of_manifests_and_creates_new_topics(rackspan, prod, tmp_path):
    spec = {"topologyRef": {"name": "main"}, "partitions": 3, "replicationFactor": 3}
    wish = {"apiVersion": "rackspan.dev/v1alpha1", "kind": "KafkaTopic", "metadata": {"name": "orders"}, "spec": spec}
    new = {**wish, "metadata": {"name": "new"}}
    (tmp_path / "wish.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [wish, new]}))
    ran = rackspan("plan", "-f", "wish.json", "--snapshot", prod, *LEVELS, "-o", "json")
    assert ran.code == 0
    assert {(one["topic"], one["partition"], len(one["replicas"])) for one in ran.json["partitions"]} == {
        ("orders", 0, 3),
        ("orders", 1, 3),
        ("orders", 2, 3),
    }
    assert [one["topic"] for one in ran.json["created"]] == ["new"]
    assert rackspan("plan", "-f", "-", "--snapshot", prod, *LEVELS, stdin=json.dumps(wish)).code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "wish.yaml:1: is not YAML: "),
        (
            "kind: KafkaTopic\napiVersion: rackspan.dev/v1alpha1\nmetadata: {name: a}\nspec: {partitions: 1}\n",
            "wish.yaml:4: spec.topologyRef is required.",
        ),
        ("kind: ConfigMap\n", "the manifests hold no KafkaTopic"),
    ],
)
def test_unusable_manifest_is_rejected_with_a_message(rackspan, prod, tmp_path, text, said):
    (tmp_path / "wish.yaml").write_text(text)
    ran = rackspan("plan", "-f", "wish.yaml", "--snapshot", prod)
    assert ran.code == 2
    assert ran.error.startswith(said)
