"""Adding and removing the finalizer of an object."""

import pytest
from tests.unit.reconcile.examples import topic

from rackspan.api.labels import FINALIZER
from rackspan.reconcile.runtime.writers import with_finalizer, without_finalizer


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
def test_finalizer_is_added_for_every_deletion_policy_and_other_finalizers_stay(policy):
    assert with_finalizer(topic(deletionPolicy=policy).meta) == (FINALIZER,)
    assert with_finalizer(topic(deletionPolicy=policy, finalizers=["theirs"]).meta) == ("theirs", FINALIZER)
    assert with_finalizer(topic(deletionPolicy=policy, finalizers=["theirs", FINALIZER]).meta) == ("theirs", FINALIZER)
    assert without_finalizer(topic(finalizers=[FINALIZER, "theirs"]).meta) == ("theirs",)
