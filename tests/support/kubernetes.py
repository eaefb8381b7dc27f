"""Requirements of tests on the Kubernetes version, for runs such as `make test KUBERNETES=1.30.14`, the oldest one."""

import pytest
from dev.stack.assets import kubernetes_version

MINOR = int(kubernetes_version().split(".")[1])
"""The minor version of the Kubernetes of this run."""


def needs_kubernetes(minor: int) -> pytest.MarkDecorator:
    """Skip tests of features that older versions lack. docs/install.md lists the version for each feature."""
    return pytest.mark.skipif(minor > MINOR, reason=f"needs Kubernetes 1.{minor}")
