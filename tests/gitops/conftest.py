"""Fixtures for real GitOps controllers and a Git server, on the control plane and Kafka of the test run."""

import pytest
from dev.gitops.argocd import NAMESPACE, start_argocd
from dev.gitops.flux import start_flux
from dev.gitops.git_server import git_server
from dev.stack import assets
from tests.integration.conftest import _turns, objects, operator, topics  # noqa: F401
from tests.support.argocd import EXAMPLES, Application, ArgoCD
from tests.support.flux import Flux


@pytest.fixture(scope="session")
def git(tmp_path_factory):
    """A Git server. `git.repository("shop")` creates an empty repository."""
    with git_server(tmp_path_factory.mktemp("git")) as server:
        yield server


@pytest.fixture
def in_git(objects, kafka, broker_sites):  # noqa: F811 - the fixture
    """A function that returns manifests of a topology and topics with extra spec fields: `in_git({}, orders={})`."""

    def manifests(topology_spec=None, /, **specs):
        made = [objects.topic_manifest(name, **spec) for name, spec in specs.items()]
        return [objects.topology_manifest(kafka.bootstrap(), **(topology_spec or {})), *made]

    return manifests


@pytest.fixture(scope="session")
def flux_controllers(processes, control_plane):
    programs = assets.find_flux()
    if programs is None:
        pytest.fail("Flux: not on this machine yet; run `make gitops`", pytrace=False)
    start_flux(processes, programs, control_plane)


@pytest.fixture
def flux(flux_controllers, git, kubectl, namespace):
    """A Kustomization in the namespace of the test, with a separate repository."""
    flux = Flux(kubectl.in_namespace(namespace), git.repository(namespace))
    flux.start()
    return flux


@pytest.fixture(scope="session")
def _argocd(processes, control_plane):
    programs = assets.find_argocd()
    if programs is None:
        pytest.fail("Argo CD: not on this machine yet; run `make gitops`", pytrace=False)
    server = start_argocd(processes, programs, control_plane)
    kubectl = control_plane.kubectl.in_namespace(NAMESPACE)
    kubectl("patch", "configmap", "argocd-cm", "--type", "merge", "--patch-file", EXAMPLES / "health.patch")
    return ArgoCD(programs["argocd"], server, kubectl)


@pytest.fixture
def application(_argocd, git, namespace):
    """An Application for the namespace of the test, with a separate repository."""
    application = Application(_argocd, git.repository(namespace), namespace)
    application.start()
    yield application
    application.stop()
