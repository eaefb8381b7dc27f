"""The real components that tests share. Each starts when a test first uses it and ends with the run or its crash."""

import contextlib
import json
import os
import secrets
import signal

import pytest
from dev.paths import REPOSITORY
from dev.stack import assets
from dev.stack.control_plane import Cluster, ControlPlane
from dev.stack.kafka_archive import ensure_archive
from dev.stack.kafka_cluster import PATIENT, KafkaCluster, Security
from dev.stack.kafka_distribution import find_distribution
from dev.stack.kubectl import KubectlError
from dev.stack.nodes import SIX_BROKERS
from dev.stack.processes import Processes
from dev.waiting import eventually
from hypothesis import HealthCheck, settings
from kubernetes import client
from tests.support.endings import Endings
from tests.support.folders import LAST_WITH_SERVERS, folder_of, rank, rank_of
from tests.support.objects import broker_pods

# `nohup` ignores SIGHUP, and shells ignore SIGINT for background jobs. Child processes would inherit this.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.support.cpu", "tests.support.failures", "tests.support.sharing"]
_STACK_FIXTURES = {"control_plane", "control_plane_factory", "kafka", "secure_kafka", "kafka_factory"}


# Hypothesis examples per test: few in `make check`, many in `make test`, very many (`thorough`) if run by hand.
_CASES = {"fast": 15, "deep": 150, "thorough": 5000}
for _profile, _most in _CASES.items():
    settings.register_profile(
        _profile,
        max_examples=_most,
        deadline=None,
        derandomize=_profile != "thorough",
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: rank(item.nodeid))
    for item in items:
        asked = set(getattr(item, "fixturenames", ()))
        if _STACK_FIXTURES & asked:
            item.add_marker(pytest.mark.stack)


_ENDINGS = pytest.StashKey[Endings]()


@pytest.fixture(scope="session")
def endings(request):
    """Yield callbacks that run as soon as no later folder needs a resource: `endings.after("chart").callback(...)`."""
    request.config.stash[_ENDINGS] = made = Endings()
    yield made
    made.all()


def _last(request, least, *fixtures):
    """Return the last folder whose tests use one of the fixtures, but not one before `least`."""
    asking = (item for item in request.session.items if not {*fixtures}.isdisjoint(getattr(item, "fixturenames", ())))
    return max([least, *(folder_of(item.nodeid) for item in asking)], key=rank_of)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if endings := item.config.stash.get(_ENDINGS, None):
        endings.before(item.nodeid)


# -- programs: tests never download or build them, because their time limit could interrupt that ---------------------


def _require(found, what):
    if not found:
        pytest.fail(f"{what}: not on this machine yet; run `make assets` first", pytrace=False)
    return found


@pytest.fixture(scope="session")
def kubernetes_binaries():
    """Return the paths of etcd, kube-apiserver, kube-controller-manager and kubectl by name."""
    found = assets.find_kubernetes()
    _require(found.keys() == set(assets.CONTROL_PLANE), "Kubernetes")
    return found


@pytest.fixture(scope="session")
def helm():
    """Return the path of helm."""
    return _require(assets.find_helm(), "helm")


@pytest.fixture(scope="session")
def kstatus():
    """Return the path of a program that prints the status of objects according to the kstatus library."""
    return _require(assets.find_kstatus(), "kstatus")


@pytest.fixture(scope="session")
def promtool():
    """Return the path of promtool, which tests Prometheus alerts."""
    return _require(assets.find_promtool(), "promtool")


@pytest.fixture(scope="session")
def versitygw():
    """Return the path of an S3 server."""
    return _require(assets.find_versitygw(), "versitygw")


@pytest.fixture(scope="session")
def kafka_distribution():
    return ensure_archive(_require(find_distribution(), "Kafka"))


@pytest.fixture(scope="session")
def cordons(kafka_distribution):
    """Skip the test if Kafka has no cordons (KIP-1066), which it has from 4.3 on."""
    if kafka_distribution.version < "4.3":
        pytest.skip(f"Kafka {kafka_distribution.version} has no cordons")


@pytest.fixture(scope="session")
def processes(request, endings, tmp_path_factory):
    """Return the processes of this run. They end with the run, even if it crashes."""
    ending = endings.after(_last(request, LAST_WITH_SERVERS, "processes", "control_plane"))
    processes = ending.enter_context(Processes.attached(tmp_path_factory.mktemp("stack")))
    ending.callback(processes.end, grace=0)  # the data is not kept
    return processes


# -- Kubernetes ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def control_plane(request, tmp_path_factory) -> Cluster:
    """Return the Kubernetes of the run: the cluster of `$RACKSPAN_KUBECONFIG`, else a new control plane.

    It has `.kubeconfig`, `.kubectl`, `.api_client()` and `.kubeconfig_for_service_account(namespace, name, path)`.
    """
    named = Cluster.named_by_user()
    if named is not None:
        return named
    binaries = request.getfixturevalue("kubernetes_binaries")
    processes = request.getfixturevalue("processes")
    return ControlPlane.start(processes.directory / "kubernetes", processes, binaries).cluster


@pytest.fixture
def control_plane_factory(processes, kubernetes_binaries):
    """Yield a factory of control planes for tests that stop them: `control_plane_factory(apiserver_flags=[...])`."""
    started = []

    def factory(**options) -> ControlPlane:
        directory = processes.directory / f"kubernetes-{secrets.token_hex(3)}"
        started.append(ControlPlane.start(directory, processes, kubernetes_binaries, **options))
        return started[-1]

    yield factory
    for plane in started:
        plane.destroy()


@pytest.fixture(scope="session")
def kubectl(control_plane):
    """Return kubectl with all rights: `kubectl("get", "nodes")`, `kubectl.json(...)`, `kubectl.apply(manifest)`."""
    return control_plane.kubectl


@pytest.fixture(scope="session")
def api_client(control_plane):
    """Yield a client of the official library, for example for `kubernetes.client.CoreV1Api(api_client)`."""
    with control_plane.api_client() as api:
        yield api


@pytest.fixture(scope="session")
def crds(kubectl) -> list[str]:
    """Apply the kinds of Rackspan, wait until they are in OpenAPI, and return the names of the definitions."""
    folder = REPOSITORY / "crds"
    kubectl.apply(folder, arguments=["--server-side", "--force-conflicts"])
    items = kubectl.json("get", f"--filename={folder}")["items"]
    names = [item["metadata"]["name"] for item in items]
    kubectl.wait_until_served(*names)
    schemas = {f"dev.rackspan.v1alpha1.{item['spec']['names']['kind']}" for item in items}

    def published():  # with a delay after the kinds are established; `kubectl explain` reads it
        found = json.loads(kubectl("get", "--raw", "/openapi/v3/apis/rackspan.dev/v1alpha1"))
        return schemas <= found["components"]["schemas"].keys()

    eventually(published, "the OpenAPI document to have all kinds", retry_on=(KubectlError, KeyError))
    return names


@pytest.fixture
def namespace_factory(api_client):
    """Yield a factory of namespaces: `namespace_factory(team="shop")` creates one with the label, returns its name."""
    core = client.CoreV1Api(api_client)
    made: list[str] = []

    def factory(**labels) -> str:
        name = f"test-{secrets.token_hex(4)}"
        core.create_namespace({"metadata": {"name": name, "labels": labels}})
        made.append(name)
        return name

    yield factory
    for name in made:
        with contextlib.suppress(client.exceptions.NotFoundException):
            core.delete_namespace(name)


@pytest.fixture
def namespace(namespace_factory):
    """Return a new namespace for the test. Tests also use its random name for their topics on the shared Kafka."""
    return namespace_factory()


@pytest.fixture
def broker_sites(api_client, namespace):
    """Create pods of the six shared brokers in the namespace of the test, on new nodes `<namespace>-node-<id>`."""
    with broker_pods(client.CoreV1Api(api_client), namespace, SIX_BROKERS):
        yield SIX_BROKERS


# -- Kafka -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kafka(processes, kafka_distribution) -> KafkaCluster:
    """Return the shared cluster: six brokers at `SIX_BROKERS`, plain text. Tests must not stop or move its brokers."""
    racks = {site.broker: site.path for site in SIX_BROKERS}
    directory = processes.directory / "kafka"
    return KafkaCluster.start(directory, processes, kafka_distribution, racks, properties=PATIENT)


@pytest.fixture(scope="session")
def secure_kafka(request, endings, processes, kafka_distribution) -> KafkaCluster:
    """Return the shared cluster with TLS, SCRAM, PLAIN and client certificates: three brokers, user `rackspan`."""
    security = Security(users={"rackspan": secrets.token_urlsafe(12)})
    racks = ["/eu/eu-1a/r1", "/eu/eu-1b/r1", "/eu/eu-1c/r1"]
    directory = processes.directory / "secure-kafka"
    cluster = KafkaCluster.start(directory, processes, kafka_distribution, racks, security=security, properties=PATIENT)
    endings.after(_last(request, "secure", "secure_kafka")).callback(cluster.destroy)
    return cluster


@pytest.fixture
def kafka_factory(processes, kafka_distribution):
    """Yield a factory of clusters for tests that stop or move brokers: `kafka_factory(["/a", None], heap="512m")`."""
    started = []

    def factory(racks, **options) -> KafkaCluster:
        directory = processes.directory / f"kafka-{secrets.token_hex(3)}"
        started.append(KafkaCluster.start(directory, processes, kafka_distribution, racks, **options))
        return started[-1]

    yield factory
    for cluster in started:
        cluster.destroy()
