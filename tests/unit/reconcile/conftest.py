"""Fixtures of the tests of control loops."""

import pytest

from rackspan.reconcile.specs import topic_quotas


@pytest.fixture(autouse=True)
def no_rest_of_namespaces(monkeypatch):
    """Disable the pause of a namespace after a quota check, because a test that runs passes itself would not wait."""
    monkeypatch.setattr(topic_quotas, "_REST", 0.0)
