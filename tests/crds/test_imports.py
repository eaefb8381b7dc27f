"""A real API server accepts the output of `rackspan import` from kubectl."""

import json
import random

import pytest
from dev.paths import REPOSITORY
from tests.support.command import RACKS, cli, cluster, topic

pytestmark = pytest.mark.stack

HOSTILE = "x: y\n---\nkind: Secret\n#\x1b[2J\u2028'\"{{ .Values }} *a &b !!c"
TEXTS = {
    "y": "n",
    "1e3": "0o17",
    "null": "~",
    "": "",
    "=": "<<",
    "-": "- a",
    "a: b": HOSTILE,
    "long": "x" * 4096,
    "007": "1_000",
}
CONFIGS = {
    "min.insync.replicas": "2",
    "retention.ms": "-1",
    "max.message.bytes": "999999999999999999999",
    "min.cleanable.dirty.ratio": "0.50",
    "preallocate": "false",
    "follower.replication.throttled.replicas": "*",
    "num.partitions": "3",
    "too.long": "x" * 4097,
}


def topics(seed):
    """Yield topics with various names, sizes and configs. The assignment grows with the partitions."""
    chance, brokers = random.Random(seed), sorted(RACKS)
    names = ["orders", "Orders", "a_b", "a-b", "._-", "x" * 249, "X" * 249, "1", "-", "a..b", "tEst.v1_2"]
    for name in names:
        width = chance.randint(1, len(brokers))
        rows = [chance.sample(brokers, width) for _ in range(chance.choice([1, 3, 50]))]
        yield topic(name, *rows, config=chance.choice([{}, CONFIGS, TEXTS]))
    yield topic("wide", *[chance.sample(brokers, 2) for _ in range(5000)], config={f"k{at}": at for at in range(120)})
    yield topic("widest", *[chance.sample(brokers, 2) for _ in range(5001)])


def accepted(kubectl, namespace, text):
    """Apply `text` as a dry run and return the specs that the API server would store, by object name."""
    arguments = ["--dry-run=server", "--validate=strict", "--output=json"]
    stored = json.loads(kubectl.in_namespace(namespace).apply(text, arguments=arguments))
    return {item["metadata"]["name"]: item["spec"] for item in stored["items"]}


@pytest.mark.parametrize("assignment", ["unfair", "always", "never"])
def test_api_server_stores_imported_topics_of_a_random_cluster_unchanged(
    kubectl, crds, namespace, tmp_path, assignment
):
    file = tmp_path / "prod.json"
    file.write_text(json.dumps(cluster(*topics(assignment))))
    arguments = ("import", "cluster", "--snapshot", file, "--topology-ref", "main", "--assignment", assignment)
    report = cli(*arguments, "-o", "json").json
    written = cli(*arguments, "--namespace", namespace)
    assert written.code == 0, written.err
    stored = accepted(kubectl, namespace, written.out)
    wanted = {one["manifest"]["metadata"]["name"]: one["manifest"] for one in report["topics"] if "manifest" in one}
    assert set(stored) == set(wanted)
    for name, manifest in wanted.items():
        assert {key: stored[name].get(key) for key in manifest["spec"]} == manifest["spec"], name
    skipped = {one["topic"] for one in report["topics"] if one["outcome"] == "Skipped"}
    assert skipped == ({"widest"} if assignment != "never" else set())


def test_api_server_accepts_the_imported_samples_of_strimzi_and_topicctl(kubectl, crds, namespace, tmp_path):
    blocks = (REPOSITORY / "docs" / "import.md").read_text().split("```yaml\n")[1:]
    for kind in ("strimzi", "topicctl"):
        (text,) = [
            block for block in (one.split("```")[0] for one in blocks) if ("strimzi.io" in block) == (kind == "strimzi")
        ]
        file = tmp_path / f"{kind}.yaml"
        file.write_text(text)
        written = cli("import", kind, file, "--namespace", namespace)
        assert written.code == 0, written.err
        stored = json.loads(
            kubectl.in_namespace(namespace).apply(
                written.out, arguments=["--dry-run=server", "--validate=strict", "--output=json"]
            )
        )
        assert stored.get("items", [stored])
