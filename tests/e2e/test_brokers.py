"""Brokers in real pods: the StatefulSet of examples/ reads its racks from the published file and follows its nodes."""

import json
import threading
from dataclasses import dataclass

import pytest
import yaml
from dev.paths import REPOSITORY, state_root
from dev.pods import images
from dev.stack.kubectl import KubectlError
from dev.stack.nodes import REGION_LABEL, ZONE_LABEL
from dev.waiting import eventually
from tests.e2e.conftest import KAFKA_NAMESPACE, NAMESPACE, NODES, Pods

EXAMPLE = REPOSITORY / "examples" / "brokers" / "statefulset.yaml"
COMMAND = REPOSITORY / "examples" / "more" / "command-pod.yaml"
MIN_IN_SYNC = 2
ASK = """
import json, sys
from confluent_kafka.admin import AdminClient
name = sys.argv[1]
admin = AdminClient({"bootstrap.servers": "kafka-bootstrap.kafka:9092"})
nodes = admin.describe_cluster(request_timeout=10).result(15).nodes
topics = admin.list_topics(name, timeout=10).topics if name else {}
partitions = [(one.replicas, one.isrs) for topic in topics.values() for one in topic.partitions.values()]
json.dump({"racks": [(node.id, node.rack) for node in nodes], "partitions": partitions}, sys.stdout)
"""
"""A program for the operator's pod that queries Kafka. Broker names do not resolve outside of the cluster."""


def documents(names):
    """Yield the objects of the example for this machine: own images, one controller, small heaps, no requests."""
    text = EXAMPLE.read_text()
    others = "".join(f",{3000 + n}@kafka-controller-{n}.kafka-controller:9093" for n in (1, 2))
    assert others in text
    for document in yaml.safe_load_all(text.replace(others, "")):
        if document["kind"] == "StatefulSet":
            if document["metadata"]["name"] == "kafka-controller":
                document["spec"]["replicas"] = 1
            pod = document["spec"]["template"]["spec"]
            for container in (*pod.get("initContainers", ()), *pod["containers"]):
                container["image"] = names[container["image"].partition(":")[0]]
                container.pop("resources")
                for variable in container.get("env", ()):
                    if variable["name"] == "KAFKA_HEAP_OPTS":
                        variable["value"] = "-Xmx384m"  # the log cleaner uses a third of it
        yield document


def volumes(count, folder):
    """Yield volumes on every node that match a claim without a storage class."""
    for number in range(count):
        path = folder / f"disk-{number}"
        path.mkdir()
        path.chmod(0o777)  # fsGroup does not apply to a folder of the machine
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"disk-{number}"},
            "spec": {
                "storageClassName": "",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "100Gi"},
                "hostPath": {"path": str(path), "type": "Directory"},
            },
        }


@dataclass
class Brokers:
    """The namespace of the brokers, and queries of Kafka."""

    pods: Pods

    @property
    def kubectl(self):
        return self.pods.cluster.kubectl.in_namespace(KAFKA_NAMESPACE)

    def each(self):
        """Return the current broker pods by broker id."""
        items = self.kubectl.json("get", "pods", "--selector=app=kafka")["items"]
        return {int(item["metadata"]["name"].removeprefix("kafka-")): item for item in items}

    def topology(self):
        return self.kubectl.json("get", "racktopology", "main").get("status", {})

    def topic(self, name):
        return self.kubectl.json("get", "kafkatopics.rackspan.dev", name).get("status", {})

    def condition(self, kind):
        return next((one for one in self.topology().get("conditions", ()) if one["type"] == kind), {})

    def ask(self, topic=""):
        operator = self.pods.cluster.kubectl.in_namespace(NAMESPACE)
        return json.loads(operator("exec", "deployment/rackspan", "--", "/opt/rackspan/bin/python", "-c", ASK, topic))

    def racks(self):
        """Return `broker.rack` of the brokers in the DescribeCluster response."""
        return dict(self.ask()["racks"])

    def replicas(self, topic):
        """Return the replicas of each partition."""
        return [replicas for replicas, _ in self.ask(topic)["partitions"]]

    def fewest_in_sync(self, topic):
        return min(len(isr) for _, isr in self.ask(topic)["partitions"])

    def relabel(self, **zones):
        for node, zone in zones.items():
            self.kubectl("label", "--overwrite", "node", node.replace("_", "-"), f"{ZONE_LABEL}={zone}")

    def told(self):
        """Return resources and logs that help to understand a failure."""
        parts = []
        for command in (
            ("get", "pods,pvc,configmaps,events", "--output=wide"),
            ("get", "racktopology,kafkatopics.rackspan.dev", "--output=yaml"),
            *(("logs", f"kafka-{n}", "--all-containers", "--tail=15") for n in range(3)),
            ("logs", "--namespace=rackspan", "deployment/rackspan", "--tail=60"),
        ):
            try:
                parts.append(self.kubectl(*command))
            except KubectlError as error:
                parts.append(str(error))
        return "\n".join(parts)

    def until(self, probe, what):
        try:
            return eventually(probe, what, interval=0.5, retry_on=KubectlError)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.told()}") from error


@pytest.fixture(scope="module")
def brokers(installed, operator_image):
    """The Kafka of the example with a ready topology. After the tests its pods are deleted and node labels restored."""
    found = Brokers(installed)
    folder = state_root() / "nodes" / "disks"
    folder.mkdir()
    kubectl = found.kubectl
    kubectl.apply(*volumes(4, folder))
    kubectl.apply(*documents({"apache/kafka": installed.image(images.KAFKA), "rackspan": operator_image}))
    found.until(lambda: found.condition("Ready").get("status") == "True", "the topology to be ready")
    yield found
    kubectl("delete", "kafkatopics.rackspan.dev", "--all", "--timeout=300s")
    kubectl("delete", "racktopologies", "--all", "--timeout=300s")
    kubectl("delete", "statefulsets", "--all")
    kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=300s")
    found.relabel(**{node.replace("-", "_"): zone for node, zone in NODES.items()})


def topic(name, factor, **spec):
    return {
        "apiVersion": "rackspan.dev/v1alpha1",
        "kind": "KafkaTopic",
        "metadata": {"name": name, "namespace": KAFKA_NAMESPACE},
        "spec": {"topologyRef": {"name": "main"}, "partitions": 3, "replicationFactor": factor, **spec},
    }


def by_zone(found, replicas):
    """Return the zones of the replicas of a partition, from the current nodes of their pods."""
    nodes = {item["metadata"]["name"]: item for item in found.kubectl.json("get", "nodes")["items"]}
    pods = found.each()
    return {nodes[pods[one]["spec"]["nodeName"]]["metadata"]["labels"][ZONE_LABEL] for one in replicas}


def racks_of_nodes(found):
    """Return the expected `broker.rack` of each broker, from the labels of the node of its pod."""
    nodes = {
        item["metadata"]["name"]: item["metadata"]["labels"] for item in found.kubectl.json("get", "nodes")["items"]
    }
    labels = {broker: nodes[pod["spec"]["nodeName"]] for broker, pod in found.each().items()}
    return {broker: f"/{one[REGION_LABEL]}/{one[ZONE_LABEL]}" for broker, one in labels.items()}


def test_brokers_report_the_racks_of_their_nodes_and_topics_are_spread_over_zones(brokers):
    assert brokers.until(lambda: (told := brokers.racks()).keys() == {0, 1, 2} and told, "three brokers") == (
        racks_of_nodes(brokers)
    )
    assert {pod["spec"]["nodeName"] for pod in brokers.each().values()} == NODES.keys()
    brokers.kubectl.apply(
        topic("orders", 3, config={"min.insync.replicas": MIN_IN_SYNC}),
        topic("audit", 2, config={"min.insync.replicas": 1}),
    )
    wait = ("wait", "--for=condition=Ready", "--timeout=300s")
    brokers.kubectl(*wait, "kafkatopics.rackspan.dev/orders", "kafkatopics.rackspan.dev/audit")
    # The responding broker may learn of a new topic later than the controller.
    audit = brokers.until(lambda: brokers.replicas("audit"), "the replicas of audit")
    assert [len(by_zone(brokers, replicas)) for replicas in audit] == [2, 2, 2]
    assert drifting(brokers) == set()


def test_commands_run_in_a_pod_with_the_rights_of_the_example(brokers, operator_image):
    brokers.kubectl.apply(COMMAND.read_text().replace("registry.example.com/rackspan:0.1.0", operator_image))
    brokers.kubectl("rollout", "status", "deployment/rackspan-command", "--timeout=120s", timeout=150)

    def run(*command):
        pod = ("exec", "deployment/rackspan-command", "--", "rackspan")
        return brokers.kubectl(*pod, *command, "--topology=kafka/main", timeout=60)

    assert json.loads(run("check", "-o", "json"))["summary"]["nonCompliant"] == 0
    assert "brokers online" in run("status")
    assert "domain lost" in run("what-if")
    assert "nothing to do" in run("plan")
    assert run("import", "cluster") == ""
    run("locality")


def drifting(found):
    """Return the brokers with rack drift in the status of the topology."""
    return {one["id"] for one in found.topology()["brokers"] if one.get("drift")}


class InSync:
    """Record in a thread the smallest number of in-sync replicas during the block."""

    def __init__(self, found, name):
        self.fewest, self.looks = None, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(found, name), daemon=True)

    def _look(self, found, name):
        while not self._ended.is_set():
            try:
                fewest = found.fewest_in_sync(name)
            except KubectlError:
                continue  # the queried broker has just stopped
            self.looks += 1
            self.fewest = fewest if self.fewest is None else min(self.fewest, fewest)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join(20)


def budget(brokers, unavailable):
    patch = json.dumps({"spec": {"maxUnavailable": unavailable}})
    brokers.kubectl("patch", "poddisruptionbudget", "kafka", "--type=merge", f"--patch={patch}")


def readiness(pod):
    return next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")


def ready_pods(brokers):
    """Return the pods by broker, or None until all are ready. Kubelets report readiness later than Kafka."""
    pods = brokers.each()
    return pods if all(readiness(pod)["status"] == "True" for pod in pods.values()) else None


def times(pod):
    """Return when a pod was created and when it became ready."""
    assert readiness(pod)["status"] == "True"
    return pod["metadata"]["creationTimestamp"], readiness(pod)["lastTransitionTime"]


def test_brokers_of_relabelled_nodes_restart_one_at_a_time_within_the_disruption_budget(brokers):
    before = brokers.until(lambda: ready_pods(brokers), "all brokers' pods to be ready")
    moved = {id_ for id_, pod in before.items() if pod["spec"]["nodeName"] in ("node-b", "node-c")}
    (stays,) = before.keys() - moved
    budget(brokers, 0)
    brokers.relabel(node_b="eu-1c", node_c="eu-1a")

    def held_back():
        told = brokers.condition("Restarting")
        waits = told.get("status") == "False" and "PodDisruptionBudget" in told["message"]
        return drifting(brokers) == moved and waits and told

    assert (
        brokers.until(held_back, "the drift, and the budget that holds the restarts back")["reason"] == "RestartWaiting"
    )
    assert {id_: pod["metadata"]["uid"] for id_, pod in brokers.each().items()} == {
        id_: pod["metadata"]["uid"] for id_, pod in before.items()
    }
    # Now two brokers are in zone eu-1a. Partitions with replicas on both are not compliant, and get a plan.
    (other,) = (id_ for id_ in moved if before[id_]["spec"]["nodeName"] == "node-c")
    wrong = sum({*replicas} == {stays, other} for replicas in brokers.replicas("audit"))
    assert brokers.until(lambda: brokers.topic("audit").get("plan", {}).get("moves"), "the plan of audit") == wrong > 0
    assert brokers.topic("audit")["compliance"]["nonCompliant"] == wrong

    with InSync(brokers, "orders") as seen:
        budget(brokers, 1)
        wanted = racks_of_nodes(brokers)
        brokers.until(lambda: brokers.racks() == wanted, "all brokers to report their nodes' new racks")
        brokers.until(lambda: drifting(brokers) == set(), "the drift to be gone")
        brokers.until(lambda: not brokers.condition("Restarting"), "the restarts to be over")
    after = brokers.until(lambda: ready_pods(brokers), "all brokers' pods to be ready again")
    assert {id_ for id_ in after if after[id_]["metadata"]["uid"] != before[id_]["metadata"]["uid"]} == moved
    assert {id_: pod["spec"]["nodeName"] for id_, pod in after.items()} == {
        id_: pod["spec"]["nodeName"] for id_, pod in before.items()
    }
    (_, first_ready), (second_made, _) = sorted(times(after[id_]) for id_ in moved)
    assert first_ready <= second_made
    assert times(after[stays]) == times(before[stays])
    assert seen.looks > 20
    assert seen.fewest == MIN_IN_SYNC
    reasons = [
        one["reason"]
        for one in brokers.kubectl.json("get", "events")["items"]
        if one["involvedObject"]["name"] == "main"
    ]
    assert (reasons.count("Restarting"), reasons.count("Restarted")) == (2, 2)
