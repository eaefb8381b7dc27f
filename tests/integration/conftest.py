"""Fixtures for the real operator: a separate process against the control plane and Kafka of the test run."""

import secrets

import pytest
from kubernetes import client
from tests.support.bad_input_page import Promise
from tests.support.folders import LAST_WITH_SERVERS
from tests.support.objects import Objects, broker_namespace
from tests.support.operators import Operator, Turns, private_operators
from tests.support.scans import IMAGE, Scans
from tests.support.topics import Topics


@pytest.fixture(scope="session")
def _turns(control_plane, crds, processes) -> Turns:
    return Turns(processes, control_plane.kubeconfig)


@pytest.fixture
def operator(_turns) -> Operator:
    """The operator that all tests of the run share. It watches all namespaces. A test may stop, kill and start it."""
    return _turns.of("operator")


@pytest.fixture
def operator_factory(_turns):
    """Start operators for one test: `operator_factory("--namespace=x", environment={...}, kubeconfig=...)`.

    On the control plane of the run they replace the shared operators, which stop until a test uses them again.
    """
    with private_operators(_turns) as factory:
        yield factory


@pytest.fixture
def alone(_turns) -> None:
    """Pause the shared operator, which would reconcile the same objects as one with a kubeconfig of its own."""
    _turns.pause()


@pytest.fixture
def objects(api_client, crds, namespace) -> Objects:
    """Rackspan objects in the namespace of the test. Topics refer to the topology `kafka` in that namespace."""
    return Objects(api_client, namespace)


@pytest.fixture(scope="session")
def topics(kafka) -> Topics:
    """The topics of the shared Kafka, through its admin client."""
    return Topics(kafka.admin())


@pytest.fixture
def topology(objects, kafka, broker_sites, operator) -> Objects:
    """A ready RackTopology of the test, for the six brokers of the shared Kafka."""
    objects.create_topology(kafka.bootstrap())
    objects.until_topology()
    return objects


@pytest.fixture(scope="session")
def _open_topology(endings, api_client, crds, kubectl, kafka):
    """A RackTopology that the tests of the run share. It is open to all namespaces, and no test changes it."""
    there = broker_namespace(api_client, kubectl, f"shared-{secrets.token_hex(4)}")
    objects = Objects(api_client, endings.after(LAST_WITH_SERVERS).enter_context(there))
    quota = {"topics": 5_000, "partitions": 50_000, "replicas": 150_000}
    objects.create_topology(kafka.bootstrap(), allowedNamespaces={"from": "All", "quota": quota}, adoption="Allowed")
    return objects


@pytest.fixture
def shop(_open_topology, objects, operator) -> Objects:
    """The namespace of the test. Its topics refer to the shared topology of six brokers."""
    _open_topology.until_topology()
    return Objects(objects.api, objects.namespace, _open_topology.namespace)


@pytest.fixture(scope="session")
def _scan_namespace(api_client) -> str:
    name, core = f"scans-{secrets.token_hex(4)}", client.CoreV1Api(api_client)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.create_namespace({"metadata": {"name": name, "labels": labels}})
    core.create_namespaced_service_account(name, {"metadata": {"name": "rackspan-scan"}})
    return name


@pytest.fixture
def scans(api_client, _scan_namespace, objects):
    """The namespace for scans, which enforces the restricted pod security standard. It is empty after the test."""
    scans = Scans(api_client, _scan_namespace)
    yield scans
    for topology in objects.topologies():
        objects.delete("RackTopology", topology)
        objects.until_gone("RackTopology", topology)
    scans.clear()


@pytest.fixture
def scanning(_turns, scans) -> Operator:
    """The operator that all scan tests share. It watches all namespaces and runs scans in the scan namespace."""
    return _turns.of("scanning", f"--scan-image={IMAGE}", f"--scan-namespace={scans.namespace}")


@pytest.fixture
def promise(request) -> Promise:
    """The rows of docs/reference/bad-input.md that name the current test."""
    return Promise(request.node.nodeid)
