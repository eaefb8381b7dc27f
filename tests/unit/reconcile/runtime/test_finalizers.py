"""Every object of ours carries the finalizer."""

import pytest
from tests.unit.reconcile.examples import topic

from rackspan.api.labels import FINALIZER
from rackspan.reconcile.runtime.writers import finalizers_for, without_finalizer


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_every_object_carries_the_finalizer_since_its_policy_may_change_any_time(policy):
    assert finalizers_for(topic(deletionPolicy=policy).meta) == (FINALIZER,)
    assert finalizers_for(topic(deletionPolicy=policy, finalizers=["theirs"]).meta) == ("theirs", FINALIZER)
    assert finalizers_for(topic(deletionPolicy=policy, finalizers=["theirs", FINALIZER]).meta) is None
    assert without_finalizer(topic(finalizers=[FINALIZER, "theirs"]).meta) == ("theirs",)
