"""The real operator, as a process of its own, against the run's control plane and Kafka."""

import secrets

import pytest
from tests.support.bad_input_page import Promise
from tests.support.objects import Objects, broker_namespace
from tests.support.operators import Operator, private_operators
from tests.support.scans import IMAGE, Scans
from tests.support.topics import Topics


@pytest.fixture(scope="session")
def _shared_operator(control_plane, crds, processes):
    return Operator(processes, control_plane.kubeconfig, name="operator")


@pytest.fixture
def operator(_shared_operator) -> Operator:
    """The operator that the run shares: it watches all namespaces. A test may stop, kill and start it."""
    if not _shared_operator.running:
        _shared_operator.start()
    return _shared_operator


@pytest.fixture
def operator_factory(_shared_operator):
    """Starts operators of the test's own: `operator_factory("--namespace=x", environment={...}, kubeconfig=...)`.

    On the run's control plane they stand in for the shared one, which pauses until a test asks for it again.
    """
    with private_operators(_shared_operator) as factory:
        yield factory


@pytest.fixture
def namespace_factory(kubectl):
    """Makes further namespaces: `namespace_factory(team="shop")` makes one with that label, and gives its name."""
    made: list[str] = []

    def factory(**labels) -> str:
        name = f"test-{secrets.token_hex(4)}"
        metadata = {"name": name, "labels": labels}
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        made.append(name)
        return name

    yield factory
    for name in made:
        kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture
def objects(api_client, crds, namespace) -> Objects:
    """Rackspan's objects in the test's own namespace; topics refer to a topology `kafka` there."""
    return Objects(api_client, namespace)


@pytest.fixture(scope="session")
def topics(kafka) -> Topics:
    """The shared Kafka as seen by its own tools."""
    return Topics(kafka.admin())


@pytest.fixture
def topology(objects, kafka, broker_sites, operator) -> Objects:
    """A ready RackTopology of the test's own, over the shared Kafka's six brokers."""
    objects.create_topology(kafka.bootstrap())
    objects.until_topology()
    return objects


@pytest.fixture(scope="session")
def _open_topology(api_client, crds, kubectl, kafka):
    """A RackTopology that the run's tests share: open to all namespaces, and nobody changes it."""
    with broker_namespace(api_client, kubectl, f"shared-{secrets.token_hex(4)}") as namespace:
        objects = Objects(api_client, namespace)
        objects.create_topology(kafka.bootstrap(), allowedNamespaces={"from": "All"}, adoption="Allowed")
        yield objects


@pytest.fixture
def shop(_open_topology, objects, operator) -> Objects:
    """The test's own namespace, whose topics refer to the run's shared topology of six brokers."""
    _open_topology.until_topology()
    return Objects(objects.api, objects.namespace, _open_topology.namespace)


@pytest.fixture
def scans(api_client, namespace_factory, kubectl):
    """A namespace where scans may run, and nothing that is not as careful as they are."""
    namespace = namespace_factory(**{"pod-security.kubernetes.io/enforce": "restricted"})
    kubectl("create", "serviceaccount", "rackspan-scan", f"--namespace={namespace}")
    return Scans(api_client, namespace)


@pytest.fixture
def scanning(operator_factory, scans, objects):
    """An operator that scans there, for the test's own namespace."""
    flags = [f"--scan-image={IMAGE}", f"--scan-namespace={scans.namespace}", f"--namespace={objects.namespace}"]
    return operator_factory(*flags)


@pytest.fixture
def promise(request) -> Promise:
    """What docs/bad-input.md says of the test at hand."""
    return Promise(request.node.nodeid)
