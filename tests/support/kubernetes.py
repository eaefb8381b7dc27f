"""What tests need of Kubernetes, which may be the oldest one that is supported: `make test KUBERNETES=1.30.14`."""

import pytest
from dev.stack.assets import kubernetes_version

MINOR = int(kubernetes_version().split(".")[1])
"""Of the Kubernetes that tests run on."""


def needs_kubernetes(minor: int) -> pytest.MarkDecorator:
    """Leaves tests out that show what older versions do not have; docs/install.md names what needs which version."""
    return pytest.mark.skipif(minor > MINOR, reason=f"needs Kubernetes 1.{minor}")
