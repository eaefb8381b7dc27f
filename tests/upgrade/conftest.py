"""Fixtures for two versions of Rackspan in one release: their charts, and their operators with the chart's rights."""

import os
import subprocess

import pytest
from dev.paths import REPOSITORY
from tests.integration.conftest import topics  # noqa: F401
from tests.support.helm import Helm
from tests.support.objects import Objects
from tests.support.versions import Release, Version


@pytest.fixture(scope="session")
def earlier(tmp_path_factory) -> Version:
    """The version of the Git reference `$RACKSPAN_EARLIER`."""
    reference = os.environ.get("RACKSPAN_EARLIER")
    if not reference:
        pytest.fail("no version to upgrade from: run `make upgrade`, or set RACKSPAN_EARLIER to a tag", pytrace=False)
    tree = tmp_path_factory.mktemp("earlier")
    command = ["git", "-C", REPOSITORY, "archive", reference, "operator", "charts"]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    subprocess.run(["tar", "--extract", "--directory", tree], input=archive, check=True)
    return Version(tree)


@pytest.fixture(scope="session")
def current() -> Version:
    """The version of the working copy."""
    return Version(REPOSITORY)


@pytest.fixture
def release(control_plane, processes, helm, tmp_path):
    """A release of the chart that the test installs."""
    release = Release(Helm(helm, control_plane.kubeconfig), control_plane, processes, tmp_path)
    yield release
    release.end()


@pytest.fixture
def objects(api_client, namespace) -> Objects:
    """Rackspan objects in the namespace of the test. The release contains the definitions."""
    return Objects(api_client, namespace)
