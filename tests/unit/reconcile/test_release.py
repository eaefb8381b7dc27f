"""Objects are let go without touching Kafka: all of them, or only those that are being deleted."""

import pytest
from tests.unit.reconcile.examples import topic, topology

from rackspan.api.labels import FINALIZER
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.uninstall import release


class MemoryKube:
    """Objects with our finalizer, by kind; `changed` are those that are not as they were listed."""

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
async def test_the_finalizer_is_taken_off_and_others_stay(leaving_only, written):
    kube = MemoryKube()
    released = await release(kube, leaving_only=leaving_only)
    assert kube.written == written
    assert sum(released.counts.values()) == len(written)
    assert not released.refused


async def test_what_changed_meanwhile_is_not_counted():
    released = await release(MemoryKube(changed={"going"}), leaving_only=False)
    assert released.counts == {"KafkaTopic": 1, "RackTopology": 1, "Reassignment": 0}


@pytest.mark.parametrize("remedy", [Remedy.ACCESS, Remedy.SPEC])
async def test_an_object_that_may_not_be_changed_holds_up_no_other(remedy):
    refusal = Failure(Reason.NOT_AUTHORIZED, "PATCH: 403", remedy)
    kube = MemoryKube(refused={"living": refusal})
    released = await release(kube, leaving_only=False)
    assert kube.written == {"going": (), "prod": ()}
    assert released.counts == {"KafkaTopic": 1, "RackTopology": 1, "Reassignment": 0}
    assert {ref.key.name: failure for ref, failure in released.refused.items()} == {"living": refusal}


async def test_an_api_server_that_does_not_answer_is_no_refusal():
    away = Failure(Reason.API_SERVER_UNREACHABLE, "no answer", Remedy.RETRY)
    with pytest.raises(FailureError, match="no answer"):
        await release(MemoryKube(refused={"living": away}), leaving_only=False)
