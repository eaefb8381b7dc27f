"""Install, upgrade, uninstall: what helm does to a cluster that holds KafkaTopics."""

import os
import re
import shutil
import subprocess

import pytest
import yaml
from dev.kubectl import KubectlError
from dev.paths import REPOSITORY
from dev.waiting import eventually
from tests.chart.helm import CHART, Helm, HelmError

OLDER = "0.0.1"
TOPIC = {
    "apiVersion": "rackspan.dev/v1alpha1",
    "kind": "KafkaTopic",
    "metadata": {"name": "orders", "namespace": "default"},
    "spec": {"topologyRef": {"name": "main"}, "partitions": 3, "replicationFactor": 2},
}


@pytest.fixture
def fresh(control_plane_factory, helm):
    """A cluster that has never seen Rackspan: its helm and its kubectl."""
    plane = control_plane_factory()
    return Helm(helm, plane.kubeconfig), plane.kubectl


@pytest.fixture
def older_chart(tmp_path):
    """An earlier version of the chart, whose KafkaTopics have one printer column less."""
    folder = tmp_path / "rackspan"
    shutil.copytree(CHART, folder)
    chart = folder / "Chart.yaml"
    chart.write_text(re.sub(r"^version: .*$", f"version: {OLDER}", chart.read_text(), flags=re.MULTILINE))
    path = folder / "files" / "crds" / "kafkatopics.yaml"
    definition = yaml.safe_load(path.read_text())
    definition["spec"]["versions"][0]["additionalPrinterColumns"].pop(0)
    path.write_text(yaml.safe_dump(definition))
    return folder


def columns(definition):
    return [column["name"] for column in definition["spec"]["versions"][0]["additionalPrinterColumns"]]


def test_the_definitions_are_upgraded_and_outlive_the_release(fresh, older_chart):
    helm, kubectl = fresh
    place = ("--namespace=rackspan", "--create-namespace")

    def definition():
        return kubectl.json("get", "crd", "kafkatopics.rackspan.dev")

    ours = yaml.safe_load((REPOSITORY / "crds" / "kafkatopics.yaml").read_text())
    helm("install", "rackspan", older_chart, *place)
    assert columns(definition()) == columns(ours)[1:]
    eventually(lambda: kubectl.apply(TOPIC), "the definition to be served", retry_on=KubectlError)
    uid = kubectl.json("get", "kafkatopic", "orders")["metadata"]["uid"]

    helm("upgrade", "rackspan", CHART, *place)
    assert columns(definition()) == columns(ours)

    helm("uninstall", "rackspan", *place[:1])
    with pytest.raises(KubectlError, match="NotFound"):
        kubectl("get", "deployment", "rackspan", *place[:1])
    with pytest.raises(KubectlError, match="NotFound"):
        kubectl("get", "clusterrole", "rackspan:rackspan")
    assert kubectl.json("get", "kafkatopic", "orders")["metadata"]["uid"] == uid

    # Back again under its name, and under another one only when told to take over.
    helm("install", "rackspan", CHART, *place)
    helm("uninstall", "rackspan", *place[:1])
    with pytest.raises(HelmError, match="invalid ownership metadata"):
        helm("install", "other", CHART, *place)
    helm("install", "other", CHART, *place, "--take-ownership")
    assert kubectl.json("get", "kafkatopic", "orders")["metadata"]["uid"] == uid


def test_the_notes_lead_to_a_topology(plane, wide, narrow):
    notes = plane.helm("get", "notes", narrow.name, f"--namespace={narrow.namespace}")
    commands = re.findall(r"^ {3}kubectl (.*)$", notes, re.MULTILINE)
    assert len(commands) == 2
    assert f"--namespace {narrow.namespace} rollout status deployment/{narrow.name}" in commands[0]
    assert plane.kubectl.json("get", "deployment", narrow.name, f"--namespace={narrow.namespace}")
    assert "--namespace shop apply --filename - <<EOT" in commands[1]
    manifest = yaml.safe_load(re.search(r"<<EOT\n(.*?)\n *EOT\n", notes, re.DOTALL)[1])
    printed = plane.kubectl.in_namespace("shop").apply(manifest, arguments=["--dry-run=server"])
    assert printed == "racktopology.rackspan.dev/main created (server dry run)\n"
    assert "crds.install is false" in notes
    assert "crds.install is false" not in plane.helm("get", "notes", wide.name, f"--namespace={wide.namespace}")


# -- docs/install.md -------------------------------------------------------------------------------------------------

DOCUMENT = (REPOSITORY / "docs" / "install.md").read_text()


def test_documented_manifests_are_accepted(plane, wide):
    manifests = re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    printed = plane.kubectl.in_namespace("shop").apply(*manifests, arguments=["--dry-run=server", "--validate=strict"])
    assert printed.count("racktopology.rackspan.dev/") == 2
    assert printed.count("(server dry run)") == 4


def loops():
    """The shell loops over KafkaTopics, in the order in which the document has them."""
    return re.findall(r"^```shell\n(kubectl get kafkatopics.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)


def test_documented_ways_to_let_go_of_topics(plane, wide):
    retain, force = loops()
    kubectl = plane.kubectl.in_namespace("elsewhere")
    for name in ("kept", "hanging"):
        metadata = {"name": name, "namespace": "elsewhere", "finalizers": ["rackspan.dev/finalizer"]}
        kubectl.apply({**TOPIC, "metadata": metadata, "spec": {**TOPIC["spec"], "deletionPolicy": "Delete"}})
    kubectl("delete", "kafkatopic", "hanging", "--wait=false")

    def follow(commands):
        environment = {**os.environ, **kubectl.environment(), "PATH": f"{kubectl.binary.parent}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-ec", commands], env=environment, check=True, timeout=60)

    follow(retain)
    assert kubectl.json("get", "kafkatopic", "kept")["spec"]["deletionPolicy"] == "Retain"
    follow(force)
    kubectl("wait", "--for=delete", "kafkatopic/hanging", "--timeout=30s")
    assert kubectl.json("get", "kafkatopic", "kept")["metadata"]["finalizers"] == ["rackspan.dev/finalizer"]
    kubectl("patch", "kafkatopic", "kept", "--type=merge", '--patch={"metadata": {"finalizers": null}}')
    kubectl("delete", "kafkatopic", "kept")
