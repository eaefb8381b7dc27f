"""Fixtures for real pods: nodes with kubelets and containerd on this machine, images of the project, and Kafka."""

from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import NewTopic
from dev import release
from dev.paths import state_root
from dev.pods import images, machine
from dev.pods.cluster import PROGRAMS, PodCluster, pod_cluster
from dev.stack import assets
from dev.stack.control_plane import components
from dev.stack.kafka_cluster import KafkaCluster
from dev.stack.kubectl import KubectlError
from dev.stack.nodes import REGION_LABEL, ZONE_LABEL
from tests.support.helm import Helm
from tests.support.registry import oci_registry, push_chart

ZONES = {"node-a": "eu-1a", "node-b": "eu-1b"}
NODES = {**ZONES, "node-c": "eu-1b"}
NAMESPACE = "rackspan"
KAFKA_NAMESPACE = "kafka"
BROKERS, TOPOLOGY, TOPIC = "shop", "kafka", "orders"
HISTORY = "/history"
CLAIM = "scans"


def pytest_collection_modifyitems(items):
    reason = machine.why_no_pods()
    for item in items:
        if item.path.parent.name == "e2e":
            item.add_marker(pytest.mark.stack)
            item.add_marker(pytest.mark.timeout(900))
            if reason is not None:
                item.add_marker(pytest.mark.skip(f"no pods on this machine: {reason}"))


def built(name):
    """Return an image that was built before the test run, because a build may exceed the time limit of a test."""
    found = images.find_image(name)
    if found is None or machine.missing_packages() or assets.find_coredns() is None:
        pytest.fail("what pods are made of is not on this machine yet; run `make e2e`", pytrace=False)
    return found


@dataclass(frozen=True)
class Pods:
    """A cluster with nodes that run pods, and a folder of the machine that is a volume on every node."""

    running: PodCluster
    volume: object

    @property
    def cluster(self):
        return self.running.plane.cluster

    @property
    def address(self):
        return self.running.address

    @property
    def kubectl(self):
        return self.cluster.kubectl.in_namespace(NAMESPACE)

    def image(self, name):
        """Load an image on the nodes and return its name there."""
        self.running.take(found := built(name))
        return found.reference

    def wait_for_job(self, name, timeout=240):
        """Wait until the Job has completed and return its pods. Fails if the Job fails."""
        with self.explaining(f"job/{name}"):
            self.kubectl(
                "wait", "--for=condition=Complete", f"--timeout={timeout}s", f"job/{name}", timeout=timeout + 9
            )
        return self.kubectl.json("get", "pods", f"--selector=job-name={name}")["items"]

    @contextmanager
    def explaining(self, owner):
        """Add the state and logs of the pods of a Job or Deployment to an error of the block."""
        try:
            yield
        except KubectlError as error:
            told = [str(error)]
            for command in (("describe", "pods"), ("logs", owner, "--all-containers", "--tail=60")):
                try:
                    told.append(self.kubectl(*command))
                except KubectlError as further:
                    told.append(str(further))
            raise AssertionError("\n".join(told)) from error

    def started(self, prefix):
        """Return the nodes that started containers of pods with this name prefix, by pod name."""
        events = self.kubectl.json("get", "events", "--field-selector=reason=Started")["items"]
        return {
            event["involvedObject"]["name"]: event["source"]["host"]
            for event in events
            if event["involvedObject"]["name"].startswith(prefix)
        }


@pytest.fixture(scope="session")
def pods(processes):
    """Three nodes in two zones, namespaces with the restricted pod security, and a volume for the history of scans."""
    binaries = assets.find_kubernetes(components(PROGRAMS))
    nodes = {name: {REGION_LABEL: "eu", ZONE_LABEL: zone} for name, zone in NODES.items()}
    coredns = assets.find_coredns()
    with pod_cluster(processes, binaries, coredns, nodes, built("pause")) as running:
        volume = state_root() / "nodes" / "volume"
        volume.mkdir()
        volume.chmod(0o777)  # fsGroup does not apply to a folder of the machine
        kubectl = running.plane.kubectl
        for namespace in (NAMESPACE, KAFKA_NAMESPACE):
            kubectl("create", "namespace", namespace)
            kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
        kubectl.apply(*history_volume(volume))
        yield Pods(running, volume)


def history_volume(folder):
    common = {"storageClassName": "", "accessModes": ["ReadWriteMany"]}
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": CLAIM},
        "spec": {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder), "type": "Directory"}},
    }
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": NAMESPACE},
        "spec": {**common, "volumeName": CLAIM, "resources": {"requests": {"storage": "1Gi"}}},
    }


# -- the operator ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def operator_image(pods):
    return pods.image("operator")


@pytest.fixture(scope="session")
def scan_image(pods):
    return pods.image("scan")


@pytest.fixture(scope="session")
def installed(pods, operator_image, helm, processes, kafka_distribution, tmp_path_factory):
    """The cluster with the chart of a release, installed from an OCI registry. The operator runs as a pod."""
    repository, tag = operator_image.rsplit(":", 1)
    scan_repository, scan_tag = images.reference("scan").rsplit(":", 1)
    values = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "scan": {
            "enabled": True,
            "image": {"repository": scan_repository, "tag": scan_tag, "pullPolicy": "Never"},
            "sparkOnKubernetes": True,
            "allowedLocations": [HISTORY],
            "allowedClaims": [CLAIM],
            "limits": {"scheduleIntervalSeconds": 60},
        },
        "racks": {"namespaces": [KAFKA_NAMESPACE], "restart": [KAFKA_NAMESPACE]},
        "log": {"format": "text"},
    }
    folder = tmp_path_factory.mktemp("release")
    release.build(folder / "built", helm, kafka_distribution)
    chart = f"rackspan-{release.version()}.tgz"
    with oci_registry(processes, folder) as address:
        push_chart(helm, folder / "built" / chart, address)
        where = (f"oci://{address}/charts/rackspan", "--plain-http", f"--version={release.version()}")
        Helm(helm, pods.cluster.kubeconfig)("install", "rackspan", *where, f"--namespace={NAMESPACE}", values=values)
    with pods.explaining("deployment/rackspan"):
        pods.kubectl("rollout", "status", "deployment/rackspan", "--timeout=300s", timeout=150)
    return pods


# -- Kafka -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def pods_kafka(pods, processes, kafka_distribution):
    """Four brokers that pods can reach, two in each zone. Each has a placeholder pod on one of the nodes."""
    racks = [f"/eu/{zone}" for zone in ZONES.values() for _ in range(2)]
    started = KafkaCluster.start(
        processes.directory / "pods-kafka", processes, kafka_distribution, racks, host=pods.address
    )
    kubectl = pods.cluster.kubectl
    kubectl("create", "namespace", BROKERS)
    kubectl.apply(*(broker_pod(broker, node) for broker, node in enumerate(n for n in ZONES for _ in range(2))))
    yield started
    started.destroy()


def broker_pod(broker, node):
    """Return a placeholder pod for the node of a broker. The broker itself is a process of the machine."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"kafka-{broker}", "namespace": BROKERS, "labels": {"app": "kafka"}},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "kafka", "image": images.PAUSE, "imagePullPolicy": "Never"}],
        },
    }


@pytest.fixture(scope="session")
def topology(installed, scan_image, pods_kafka):
    """The cluster with a ready RackTopology for these brokers and a topic with one zone for each partition."""
    admin = pods_kafka.admin()
    wrong = NewTopic(TOPIC, num_partitions=2, replica_assignment=[[0, 1], [3, 2]])
    admin.create_topics([wrong])[TOPIC].result(30)
    installed.cluster.kubectl.apply(
        {
            "apiVersion": "rackspan.dev/v1alpha1",
            "kind": "RackTopology",
            "metadata": {"name": TOPOLOGY, "namespace": BROKERS},
            "spec": {
                "kafka": {"bootstrapServers": pods_kafka.bootstrap()},
                "levels": [{"name": "region", "nodeLabel": REGION_LABEL}, {"name": "zone", "nodeLabel": ZONE_LABEL}],
                "brokers": {"podSelector": {"matchLabels": {"app": "kafka"}}},
                "compliance": {
                    "engine": "Job",
                    "historyLocation": HISTORY,
                    "historyVolume": {"claimName": CLAIM},
                    "backoffLimit": 0,
                },
            },
        }
    )
    in_namespace = installed.cluster.kubectl.in_namespace(BROKERS)
    in_namespace("wait", "--for=condition=Ready", f"racktopology/{TOPOLOGY}", "--timeout=300s")
    return installed
