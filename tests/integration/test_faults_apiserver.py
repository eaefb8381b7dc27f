"""Outages of the API server: the operator keeps running, and afterwards handles all changes made during the outage."""

import json
import os
import shutil
import time
from contextlib import ExitStack, contextmanager

import pytest
from dev.paths import REPOSITORY
from dev.stack.control_plane import ControlPlane
from dev.stack.nodes import SIX_BROKERS, create_sites
from kubernetes import client
from tests.support.objects import Objects, broker_namespace, condition
from tests.support.operators import Operator
from tests.support.secure import Secure
from tests.support.waiting import until

OUTAGE_SECONDS = float(os.environ.get("RACKSPAN_TEST_API_OUTAGE_SECONDS", "20"))
"""Manual runs may set a longer outage, such as a minute or an hour."""
BURST = 60
VERSIONS = 500
"""More resource versions than an idle control plane creates while a test waits."""
NAMESPACE = "outage"
ACCOUNT = "serviceaccount=default:tenants"

pytestmark = pytest.mark.timeout(1200 + OUTAGE_SECONDS)


@pytest.fixture(scope="module")
def plane(processes, kubernetes_binaries):
    """A control plane that the tests of this module may stop."""
    plane = ControlPlane.start(processes.directory / "faulty-kubernetes", processes, kubernetes_binaries)
    plane.kubectl.apply(REPOSITORY / "crds", arguments=["--server-side"])
    plane.kubectl.wait_until_served()
    plane.kubectl("create", "namespace", NAMESPACE)
    yield plane
    plane.destroy()


@pytest.fixture(scope="module")
def api(plane):
    with plane.api_client() as api:
        yield api


@pytest.fixture(scope="module")
def shop(api, kafka):
    """A topology on that control plane, for the shared Kafka."""
    create_sites(client.CoreV1Api(api), NAMESPACE, SIX_BROKERS)
    objects = Objects(api, NAMESPACE)
    objects.create_topology(kafka.bootstrap())
    return objects


@pytest.fixture
def secure_topology(shop, secure_kafka):
    """A topology whose client needs Secrets, which the operator cannot read during an outage of the API server."""
    secure = Secure(shop, secure_kafka)
    secure.default_secrets()
    manifest = shop.topology_manifest("", "secure", kafka=secure.spec("SASL_SSL"), rackSource="Broker", brokers=None)
    shop.create(manifest)
    return "secure"


@pytest.fixture
def own_operator(shop, plane, operator_factory):
    operator = operator_factory(kubeconfig=plane.kubeconfig)
    shop.until_topology()
    return operator


@contextmanager
def _stopped(plane):
    """Stop the API server and etcd for the duration of the block."""
    plane.stop_component("kube-apiserver")
    plane.stop_component("etcd")
    yield
    plane.start_component("etcd")
    plane.start_component("kube-apiserver")


def _outlast(seconds):
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() >= end, seconds + 5)


def _nothing_is_written(shop, topics, operator):
    """Check that without a Lease the operator reads Kafka and changes nothing: another operator may hold the Lease."""
    assert operator.metric("rackspan_lease_held") == 0
    steady, late = map(shop.kafka_name, ("steady", "late"))
    told = len(operator.log)
    topics.set_config(steady, **{"retention.ms": "2000000"})
    topics.delete(late)
    operator.after_passes(3, shop.label)
    assert topics.config(steady)["retention.ms"] == "2000000", "the operator reset the config"
    assert not topics.exists(late), "the operator recreated the topic"
    trail = [line["audit"] for line in operator.log[told:] if "audit" in line]
    assert {entry["answer"] for entry in trail} == {"LeaseNotHeld"}, "a change was sent without the Lease"


def test_operator_survives_an_api_server_outage_and_applies_the_changes_made_during_it(
    shop, api, plane, topics, own_operator, secure_topology
):
    core = client.CoreV1Api(api)
    shop.create_topic("lost")
    shop.create_topic("remade", onTopicLoss="Recreate")
    shop.create_topic("leaving")
    shop.create_topic("steady", config={"retention.ms": "1000000"})
    shop.create_topic("late", onTopicLoss="Recreate")
    shop.until_ready("steady")
    late = shop.until_ready("late")["status"]["topicId"]
    before = {name: shop.until_ready(name)["status"]["topicId"] for name in ("lost", "remade", "leaving")}
    shop.until_topology("Connected", name=secure_topology)
    pid = own_operator.pid

    stored = []
    for number in range(BURST):
        stored.append(f"burst-{number}")
        shop.create_topic(stored[-1])
    plane.stop_component("kube-apiserver")
    for name in ("lost", "remade"):
        topics.delete(shop.kafka_name(name))
    _outlast(OUTAGE_SECONDS)
    assert own_operator.pid == pid
    assert own_operator.get("/healthz")[0] == 200
    _nothing_is_written(shop, topics, own_operator)

    plane.start_component("kube-apiserver")
    # Immediately, before the watches of the operator are open again: then no watch ever reports it.
    shop.delete("KafkaTopic", "leaving")
    core.delete_node(SIX_BROKERS[5].node)

    def knows_what_was_deleted(topology):
        status = topology["status"]
        return status["missingRacks"]["brokers"] == [5] and status["topics"]["total"] == BURST + 4

    shop.until("RackTopology", "kafka", knows_what_was_deleted, "to know of the node and the object that are gone")
    create_sites(core, NAMESPACE, SIX_BROKERS[5:])  # with its pod, which Kubernetes may have deleted after the node

    for name in stored:
        ready = shop.until_ready(name)
        assert ready["status"]["topicId"] == topics.id(shop.kafka_name(name))
    assert shop.until_stalled("lost", "TopicVanished")["status"]["topicId"] == before["lost"]
    old = (None, before["remade"])
    shop.until("KafkaTopic", "remade", lambda obj: obj["status"].get("topicId") not in old, "to be about a new topic")
    assert shop.until_ready("remade")["status"]["topicId"] == topics.id(shop.kafka_name("remade"))
    assert topics.exists(shop.kafka_name("leaving")), "the topic was deleted although its deletionPolicy is Retain"
    shop.until("KafkaTopic", "late", lambda obj: obj["status"].get("topicId") not in (None, late), "to be made anew")
    topics.until_config(shop.kafka_name("steady"), {"retention.ms": "1000000"})
    now = condition(shop.until_topology(name=secure_topology), "Connected")
    assert now["status"] == "True", "unreadable Secrets ended the connection to Kafka"
    told = [line["message"] for line in own_operator.log if "topology outage/secure" in line["message"]]
    assert [line for line in told if "Secret" in line or "API server" in line] == []
    assert own_operator.pid == pid, "the operator was restarted"
    assert _defects(own_operator) == []


def test_topic_recreated_before_a_crash_is_recognized_as_own_after_the_restart(shop, plane, topics, own_operator):
    """The operator recreates the topic in Kafka and is killed before the API server stores the new id."""
    shop.create_topic("orders", onTopicLoss="Recreate")
    before = shop.until_ready("orders")["status"]["topicId"]
    plane.stop_component("kube-apiserver")
    topics.delete(shop.kafka_name("orders"))
    _outlast(8)
    own_operator.kill()
    plane.start_component("kube-apiserver")
    own_operator.start()
    after = shop.until("KafkaTopic", "orders", lambda obj: obj["status"].get("topicId") not in (None, before))
    assert after["status"]["topicId"] == topics.id(shop.kafka_name("orders"))
    shop.until_ready("orders")


def test_topic_created_before_a_crash_is_owned_and_one_with_a_copied_annotation_is_adopted(shop, topics, own_operator):
    """The crash leaves the topic and the annotation with the uid. An annotation of another object is ignored."""
    own_operator.kill()
    for name in ("made", "copied"):
        topics.create(shop.kafka_name(name), ((0, 3, 2), (3, 1, 2), (5, 2, 0)))
        shop.create_topic(name, deletionPolicy="Delete")
    claims = {"made": shop.topic("made")["metadata"]["uid"], "copied": "uid-of-the-original"}
    for name, uid in claims.items():
        shop.annotate_topic(name, {"rackspan.dev/created-for": uid})
    own_operator.start()
    assert "adopted" not in shop.until_ready("made")["status"]
    assert shop.until_ready("copied")["status"]["adopted"] is True
    shop.until_event("made", "Created")
    shop.until_event("copied", "Adopted")


def test_operator_applies_changes_after_etcd_is_restored_from_a_backup(
    shop, api, plane, topics, own_operator, tmp_path
):
    """The restored resource versions are older than those of open watches, so the API server sends them no events."""
    shop.create_topic("taken-back", config={"retention.ms": "1000000"})
    shop.create_topic("changed-since", config={"retention.ms": "1000000"})
    for name in ("taken-back", "changed-since"):
        shop.until_ready(name)
    data = plane.directory / "etcd"
    with _stopped(plane):
        shutil.copytree(data, tmp_path / "etcd")
    shop.change_topic("taken-back", config={"retention.ms": "2000000"})
    topics.until_config(shop.kafka_name("taken-back"), {"retention.ms": "2000000"})
    for number in range(VERSIONS):
        client.CoreV1Api(api).patch_namespace(NAMESPACE, {"metadata": {"annotations": {"number": str(number)}}})
    with _stopped(plane):
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "etcd", data)
    # It creates service accounts of new namespaces, and its watches wait as well. Kubernetes' docs restart it too.
    plane.stop_component("kube-controller-manager")
    plane.start_component("kube-controller-manager")
    assert client.CoreV1Api(api).read_namespace(NAMESPACE).metadata.annotations is None

    shop.create_topic("made-since")
    shop.change_topic("changed-since", config={"retention.ms": "3000000"})
    shop.until_ready("made-since")
    topics.until_config(shop.kafka_name("changed-since"), {"retention.ms": "3000000"})
    topics.until_config(shop.kafka_name("taken-back"), {"retention.ms": "1000000"})
    assert _defects(own_operator) == []


@pytest.fixture
def tenants(plane, kafka):
    """Two tenant namespaces, the first with a topology. The account of the operator has no rights in either of them."""
    plane.kubectl("create", "serviceaccount", "tenants", "--namespace=default")
    plane.kubectl("create", "clusterrole", "tenants", "--verb=get,list,watch", "--resource=nodes,namespaces")
    plane.kubectl("create", "clusterrolebinding", "tenants", "--clusterrole=tenants", f"--{ACCOUNT}")
    plane.kubectl("create", "clusterrole", "all-in-a-namespace", "--verb=*", "--resource=*.*")
    _allow(plane, "default")
    with ExitStack() as ends, plane.api_client() as api:
        found = []
        for name in ("mine", "theirs"):
            ends.enter_context(broker_namespace(api, plane.kubectl, name))
            found.append(Objects(api, name))
        found[0].create_topology(kafka.bootstrap())
        yield found


def _allow(plane, namespace):
    plane.kubectl(
        "create", "rolebinding", "tenants", "--clusterrole=all-in-a-namespace", f"--{ACCOUNT}", f"-n={namespace}"
    )


def test_namespace_without_rights_is_left_out_and_others_are_reconciled(plane, tenants, operator_factory, tmp_path):
    """As after a namespace is recreated without the Role of the operator. An open watch continues without a Role."""
    mine, theirs = tenants
    _allow(plane, mine.namespace)
    account = plane.cluster.kubeconfig_for_service_account("default", "tenants", tmp_path / "kubeconfig")
    operator = operator_factory("--namespace=mine", "--namespace=theirs", kubeconfig=account)

    def until_left_out(*namespaces):
        def told():
            return json.loads(operator.get("/readyz")[1]).get("leftOut") == [*namespaces]

        until(told, f"{namespaces} to be left out")
        assert operator.metric("rackspan_namespaces_left_out") == len(namespaces)

    for name in ("first", "second"):
        until_left_out("theirs")
        theirs.create_topic(name)
        mine.create_topic(name)
        mine.until_ready(name)
        assert theirs.topic(name)["status"] == {"observedGeneration": -1}
        _allow(plane, theirs.namespace)
        theirs.until_stalled(name, "TopologyNotFound")
        until_left_out()
        plane.kubectl("delete", "rolebinding", "tenants", "-n=theirs")
        plane.stop_component("kube-apiserver")
        plane.start_component("kube-apiserver")
    until_left_out("theirs")
    operator.until_ready()  # may take a moment: the API server may have been stopped for longer than the renew deadline
    assert operator.get("/healthz")[0] == 200
    told = [line["message"] for line in operator.log if "namespace theirs" in line["message"]]
    assert [("left out" in line, "read again" in line) for line in told] == [(True, False), (False, True)] * 2 + [
        (True, False)
    ]
    assert _defects(operator) == []


def test_operator_waits_for_crds_that_are_applied_after_its_start(control_plane_factory, processes):
    """GitOps tools may apply them in any order. kopf never watches a resource that is not served at its start."""
    plane = control_plane_factory()
    operator = Operator(processes, plane.kubeconfig)
    operator.launch()
    try:
        words = "the API server does not serve KafkaTopic, RackTopology, ComplianceReport, Reassignment"
        until(lambda: any(words in line["message"] for line in operator.log), "the operator to say what it misses")
        assert operator.get("/readyz")[0] == 503
        assert operator.get("/healthz")[0] == 200, "the liveness probe fails although a restart cannot help"
        plane.kubectl.apply(REPOSITORY / "crds", arguments=["--server-side"])
        operator.until_ready()
        plane.kubectl("create", "namespace", NAMESPACE)
        with plane.api_client() as api:
            objects = Objects(api, NAMESPACE)
            objects.create_topic("orders")
            objects.until_stalled("orders", "TopologyNotFound")
    finally:
        operator.kill()


def _defects(operator):
    """Return the log lines with a traceback, apart from those of kopf about an API server that is still starting."""
    return [line for line in operator.tracebacks if "'code': 503" not in line]
