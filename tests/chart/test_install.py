"""Install, upgrade and uninstall the chart in a cluster with KafkaTopics."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from dev.paths import REPOSITORY
from dev.stack.assets import kubernetes_version
from dev.stack.kubectl import KubectlError
from dev.waiting import eventually
from tests.support.helm import CHART, Helm, HelmError

OLDER = "0.0.1"
TOPIC = {
    "apiVersion": "rackspan.dev/v1alpha1",
    "kind": "KafkaTopic",
    "metadata": {"name": "orders", "namespace": "default"},
    "spec": {"topologyRef": {"name": "main"}, "partitions": 3, "replicationFactor": 2},
}


@pytest.fixture
def fresh(control_plane_factory, helm):
    """Return helm and kubectl of a cluster in which Rackspan was never installed."""
    plane = control_plane_factory()
    return Helm(helm, plane.kubeconfig), plane.kubectl


@pytest.fixture
def older_chart(tmp_path):
    """Return an earlier version of the chart, whose KafkaTopics have one printer column less."""
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


def test_definitions_are_upgraded_with_the_chart_and_survive_an_uninstall(fresh, older_chart):
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

    helm("uninstall", "rackspan", "--no-hooks", *place[:1])
    with pytest.raises(KubectlError, match="NotFound"):
        kubectl("get", "deployment", "rackspan", *place[:1])
    with pytest.raises(KubectlError, match="NotFound"):
        kubectl("get", "clusterrole", "rackspan:rackspan")
    assert kubectl.json("get", "kafkatopic", "orders")["metadata"]["uid"] == uid

    # The chart can be installed again under its name. Another name needs --take-ownership.
    helm("install", "rackspan", CHART, *place)
    helm("uninstall", "rackspan", "--no-hooks", *place[:1])
    with pytest.raises(HelmError, match="invalid ownership metadata"):
        helm("install", "other", CHART, *place)
    helm("install", "other", CHART, *place, "--take-ownership")
    assert kubectl.json("get", "kafkatopic", "orders")["metadata"]["uid"] == uid


def test_notes_show_the_rollout_command_and_a_valid_topology(plane, wide, narrow):
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


def test_api_server_accepts_the_documented_manifests(plane, wide):
    manifests = re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    printed = plane.kubectl.in_namespace("shop").apply(*manifests, arguments=["--dry-run=server", "--validate=strict"])
    kinds = Counter(one["kind"] for manifest in manifests for one in yaml.safe_load_all(manifest))
    assert printed.count("racktopology.rackspan.dev/") == kinds["RackTopology"] > 0
    assert printed.count("(server dry run)") == kinds.total()


def test_documented_template_has_no_hooks_and_the_api_server_accepts_it(plane, wide):
    (command,) = re.findall(r"^(helm template .*?) \| kubectl apply --server-side", DOCUMENT, re.MULTILINE)
    rendered = subprocess.run(
        [plane.helm.binary, *command.split()[1:], "--namespace=elsewhere", f"--kube-version={kubernetes_version()}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "helm.sh/hook" not in rendered
    plane.kubectl.apply(rendered, arguments=["--server-side", "--dry-run=server", "--force-conflicts"])


def test_documented_command_releases_only_objects_that_hang_in_deletion(plane, wide):
    (force,) = re.findall(r"^```shell\n(for kind in .*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
    kubectl = plane.kubectl.in_namespace("elsewhere")
    for name in ("living", "hanging"):
        kubectl.apply(guarded(name, "elsewhere"))
    kubectl("delete", "kafkatopic", "hanging", "--wait=false")
    environment = {**os.environ, **kubectl.environment(), "PATH": f"{kubectl.binary.parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-ec", force], env=environment, check=True, timeout=600)
    kubectl("wait", "--for=delete", "kafkatopic/hanging", "--timeout=30s")
    assert kubectl.json("get", "kafkatopic", "living")["metadata"]["finalizers"] == [FINALIZER]
    kubectl("patch", "kafkatopic", "living", "--type=merge", '--patch={"metadata": {"finalizers": null}}')
    kubectl("delete", "kafkatopic", "living")


FINALIZER = "rackspan.dev/finalizer"


def guarded(name, namespace):
    metadata = {"name": name, "namespace": namespace, "finalizers": [FINALIZER]}
    return {**TOPIC, "metadata": metadata, "spec": {**TOPIC["spec"], "deletionPolicy": "Delete"}}


def test_release_command_reports_read_only_objects_and_releases_the_others(plane, wide, tmp_path):
    account = "--serviceaccount=theirs:reader"
    for namespace in ("theirs", "mine"):
        plane.kubectl("create", "namespace", namespace)
        plane.kubectl.in_namespace(namespace).apply(guarded("orders", namespace))
    theirs, mine = map(plane.kubectl.in_namespace, ("theirs", "mine"))
    theirs("create", "serviceaccount", "reader")
    objects = "kafkatopics.rackspan.dev,racktopologies.rackspan.dev,reassignments.rackspan.dev"
    plane.kubectl("create", "clusterrole", "reads", "--verb=list", f"--resource={objects}")
    plane.kubectl("create", "clusterrolebinding", "reads", "--clusterrole=reads", account)
    mine("create", "role", "changes", "--verb=patch", f"--resource={objects}")
    mine("create", "rolebinding", "changes", "--role=changes", account)
    config = plane.cluster.kubeconfig_for_service_account("theirs", "reader", tmp_path / "kubeconfig")
    done = subprocess.run(
        [Path(sys.executable).with_name("rackspan"), "release", "--namespace=theirs", "--namespace=mine"],
        env={**os.environ, "RACKSPAN_KUBECONFIG": str(config)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout.startswith("released 1 KafkaTopic, ")
    assert "may not be changed, and the finalizer stays: KafkaTopic theirs/orders (" in done.stderr
    assert "finalizers" not in mine.json("get", "kafkatopic", "orders")["metadata"]
    assert theirs.json("get", "kafkatopic", "orders")["metadata"]["finalizers"] == [FINALIZER]
    theirs("patch", "kafkatopic", "orders", "--type=merge", '--patch={"metadata": {"finalizers": null}}')


def test_uninstall_removes_finalizers_and_all_objects_of_the_release(plane, wide, tmp_path):
    """No kubelet runs, so the test runs the command of the hook's Job with the ServiceAccount of the release."""
    namespace, release = "rackspan-leaving", "leaving"
    kubectl = plane.kubectl.in_namespace(namespace)
    left = plane.kubectl.in_namespace("left")
    plane.kubectl("create", "namespace", "left")
    values = {"fullnameOverride": release, "watchNamespaces": ["left"], "crds": {"install": False}}
    plane.helm("install", release, CHART, f"--namespace={namespace}", "--create-namespace", values=values)
    for name in ("living", "going"):
        left.apply(guarded(name, "left"))
    left("delete", "kafkatopic", "going", "--wait=false")
    plane.cluster.kubeconfig_for_service_account(namespace, release, tmp_path / "kubeconfig")

    command = [plane.helm.binary, "uninstall", release, f"--namespace={namespace}"]
    helm = subprocess.Popen([*command, f"--kubeconfig={plane.helm.kubeconfig}"])

    def pods():
        found = kubectl.json("get", "pods", f"--selector=batch.kubernetes.io/job-name={release}-release")["items"]
        return found or None

    (pod,) = eventually(pods, "the Job's pod")
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["serviceAccountName"] == release
    environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    done = subprocess.run(
        [Path(sys.executable).with_name("rackspan"), *container["args"]],
        env={**os.environ, **environment, "RACKSPAN_KUBECONFIG": str(tmp_path / "kubeconfig")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    told = "released 2 KafkaTopics, 0 RackTopologies and 0 Reassignments; nothing was deleted in Kafka\n"
    assert done.stdout == told, done.stderr
    assert kubectl.json("get", "deployment", release)["spec"]["replicas"] == 0
    ended = json.dumps({"status": {"phase": "Succeeded"}})
    kubectl("patch", "pod", pod["metadata"]["name"], "--subresource=status", "--type=merge", f"--patch={ended}")
    assert helm.wait(600) == 0

    left("wait", "--for=delete", "kafkatopic/going", "--timeout=30s")
    assert "finalizers" not in left.json("get", "kafkatopic", "living")["metadata"]
    for kind in ("job", "role", "rolebinding", "deployment"):
        assert kubectl("get", kind, "--output=name") == "", "objects of the release or its hook remain"
    plane.kubectl("delete", "namespace", "left", "--timeout=300s")
