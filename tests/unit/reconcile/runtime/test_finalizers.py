"""Every object of ours carries the finalizer."""

import pytest
from tests.unit.reconcile.examples import topic

from rackspan.api.labels import FINALIZER
from rackspan.reconcile.runtime.writers import with_finalizer, without_finalizer


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_every_object_carries_the_finalizer_since_its_policy_may_change_any_time(policy):
    assert with_finalizer(topic(deletionPolicy=policy).meta) == (FINALIZER,)
    assert with_finalizer(topic(deletionPolicy=policy, finalizers=["theirs"]).meta) == ("theirs", FINALIZER)
    assert with_finalizer(topic(deletionPolicy=policy, finalizers=["theirs", FINALIZER]).meta) == ("theirs", FINALIZER)
    assert without_finalizer(topic(finalizers=[FINALIZER, "theirs"]).meta) == ("theirs",)
