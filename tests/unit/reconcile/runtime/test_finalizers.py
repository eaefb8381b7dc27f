"""Adding and removing the finalizer of an object."""

from unittest.mock import AsyncMock

import pytest
from tests.unit.reconcile.examples import topic

from rackspan.api.labels import FINALIZER
from rackspan.reconcile.runtime.writers import FinalizerWriter


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_finalizer_is_added_for_every_deletion_policy_and_other_finalizers_stay(policy):
    kube = AsyncMock()
    writer = FinalizerWriter(kube)
    await writer.add("KafkaTopic", topic(deletionPolicy=policy).meta)
    await writer.add("KafkaTopic", topic(deletionPolicy=policy, finalizers=["theirs"]).meta)
    await writer.remove("KafkaTopic", topic(finalizers=[FINALIZER, "theirs"]).meta)
    written = [call.args[1] for call in kube.set_finalizers.call_args_list]
    assert written == [(FINALIZER,), ("theirs", FINALIZER), ("theirs",)]
