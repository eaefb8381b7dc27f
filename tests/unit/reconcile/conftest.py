"""What tests of the control loops share."""

import pytest

from rackspan.reconcile.specs import topic_quotas


@pytest.fixture(autouse=True)
def no_rest_of_namespaces(monkeypatch):
    """A namespace rests by the CPU time that its quota took: a test that works by hand would end before."""
    monkeypatch.setattr(topic_quotas, "_REST", 0.0)
