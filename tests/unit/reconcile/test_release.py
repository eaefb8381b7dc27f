"""Finalizers are removed without changes in Kafka: from all objects, or only from those that are being deleted."""

import pytest
from tests.unit.reconcile.examples import topic, topology

from rackspan.api.labels import FINALIZER
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.uninstall import release


class MemoryKube:
    """Objects with Rackspan's finalizer, by kind. `changed` are those that have changed since they were listed."""

    def __init__(self, changed=(), refused=None):
        living = topic("living", finalizers=["theirs", FINALIZER])
        going = topic("going", finalizers=[FINALIZER], deleted="2026-01-31T12:00:00Z")
        self.objects = {"KafkaTopic": [living.meta, going.meta], "RackTopology": [topology().meta], "Reassignment": []}
        self.changed, self.refused = changed, refused or {}
        self.written = {}

    async def with_finalizer(self, kind):
        return self.objects[kind]

    async def set_finalizers(self, ref, finalizers, version, annotations):
        if ref.key.name in self.changed:
            return None
        if ref.key.name in self.refused:
            raise FailureError(self.refused[ref.key.name])
        self.written[ref.key.name] = finalizers
        return {}


@pytest.mark.parametrize(
    ("leaving_only", "written"),
    [(False, {"living": ("theirs",), "going": (), "prod": ()}), (True, {"going": ()})],
)
async def test_release_removes_the_finalizer_and_keeps_others(leaving_only, written):
    kube = MemoryKube()
    released = await release(kube, leaving_only=leaving_only)
    assert kube.written == written
    assert sum(released.counts.values()) == len(written)
    assert not released.refused


async def test_object_that_has_changed_is_not_counted():
    released = await release(MemoryKube(changed={"going"}), leaving_only=False)
    assert released.counts == {"KafkaTopic": 1, "RackTopology": 1, "Reassignment": 0}


@pytest.mark.parametrize("remedy", [Remedy.ACCESS, Remedy.SPEC])
async def test_object_that_cannot_be_changed_does_not_block_others(remedy):
    refusal = Failure(Reason.NOT_AUTHORIZED, "PATCH: 403", remedy)
    kube = MemoryKube(refused={"living": refusal})
    released = await release(kube, leaving_only=False)
    assert kube.written == {"going": (), "prod": ()}
    assert released.counts == {"KafkaTopic": 1, "RackTopology": 1, "Reassignment": 0}
    assert {ref.key.name: failure for ref, failure in released.refused.items()} == {"living": refusal}


async def test_unreachable_api_server_raises_an_error():
    away = Failure(Reason.API_SERVER_UNREACHABLE, "no answer", Remedy.RETRY)
    with pytest.raises(FailureError, match="no answer"):
        await release(MemoryKube(refused={"living": away}), leaving_only=False)
