"""Real controllers of GitOps beside the operator, on the run's control plane and Kafka, and a Git server."""

import pytest
from dev.gitops.flux import start_flux
from dev.gitops.git_server import git_server
from dev.stack import assets
from tests.integration.conftest import _turns, objects, operator, topics  # noqa: F401
from tests.support.flux import Flux


@pytest.fixture(scope="session")
def git(tmp_path_factory):
    """A Git server: `git.repository("shop")` makes an empty repository."""
    with git_server(tmp_path_factory.mktemp("git")) as server:
        yield server


@pytest.fixture(scope="session")
def _flux(processes, control_plane):
    programs = assets.find_flux()
    if programs is None:
        pytest.fail("Flux: not on this machine yet; run `make gitops`", pytrace=False)
    start_flux(processes, programs, control_plane)


@pytest.fixture
def flux(_flux, git, kubectl, namespace):
    """A Kustomization in the test's own namespace, over a repository of its own."""
    flux = Flux(kubectl.in_namespace(namespace), git.repository(namespace))
    flux.start()
    return flux
