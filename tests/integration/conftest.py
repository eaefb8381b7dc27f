"""The real operator, as a process of its own, against the run's control plane and Kafka."""

import secrets

import pytest
from dev.nodes import SIX_BROKERS, create_sites, delete_node
from kubernetes import client
from tests.integration.bad_input_page import Promise
from tests.integration.support import Objects, Operator, Topics


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
def operator_factory(_shared_operator, control_plane, processes):
    """Starts operators of the test's own: `operator_factory("--namespace=x", environment={...})`.

    On the run's control plane they stand in for the shared one, which pauses: two operators would decide about the
    same objects. With `kubeconfig` they watch another control plane, and the shared one goes on.
    """
    started: list[Operator] = []

    def factory(*flags, kubeconfig=None, environment=None) -> Operator:
        if kubeconfig is None and _shared_operator.running:
            _shared_operator.stop()
        operator = Operator(processes, kubeconfig or control_plane.kubeconfig, flags, environment or {})
        operator.start()
        started.append(operator)
        return operator

    yield factory
    for operator in started:
        operator.kill()


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
        kubectl("delete", "namespace", name, "--wait=false")


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
    name = f"shared-{secrets.token_hex(4)}"
    kubectl("create", "namespace", name)
    core = client.CoreV1Api(api_client)
    create_sites(core, name, SIX_BROKERS, node_prefix=f"{name}-")
    objects = Objects(api_client, name)
    objects.create_topology(kafka.bootstrap(), allowedNamespaces={"from": "All"})
    yield objects
    for site in SIX_BROKERS:
        delete_node(core, f"{name}-{site.node}")
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def shop(_open_topology, objects, operator) -> Objects:
    """The test's own namespace, whose topics refer to the run's shared topology of six brokers."""
    _open_topology.until_topology()
    return Objects(objects.api, objects.namespace, _open_topology.namespace)


@pytest.fixture
def promise(request) -> Promise:
    """What docs/bad-input.md says of the test at hand."""
    return Promise(request.node.nodeid)
