"""What all tests of topics share."""

import pytest

from rackspan.reconcile.topics import topic_quotas


@pytest.fixture(autouse=True)
def no_rest_of_namespaces(monkeypatch):
    """A namespace rests by the CPU time that its quota took: a test that works by hand would end before."""
    monkeypatch.setattr(topic_quotas, "_REST", 0.0)
