"""Objects are let go without touching Kafka: all of them, or only those that are being deleted."""

import pytest
from tests.unit.reconcile.examples import topic, topology

from rackspan.api.labels import FINALIZER
from rackspan.reconcile.uninstall import release


class MemoryKube:
    """Objects with our finalizer, by kind; `changed` are those that are not as they were listed."""

    def __init__(self, changed=()):
        living = topic("living", finalizers=["theirs", FINALIZER])
        going = topic("going", finalizers=[FINALIZER], deleted="2026-01-31T12:00:00Z")
        self.objects = {"KafkaTopic": [living.meta, going.meta], "RackTopology": [topology().meta], "Reassignment": []}
        self.changed = changed
        self.written = {}

    async def with_finalizer(self, kind):
        return self.objects[kind]

    async def set_finalizers(self, ref, finalizers, version, annotations):
        if ref.key.name in self.changed:
            return None
        self.written[ref.key.name] = finalizers
        return {}


@pytest.mark.parametrize(
    ("leaving_only", "written"),
    [(False, {"living": ("theirs",), "going": (), "prod": ()}), (True, {"going": ()})],
)
async def test_the_finalizer_is_taken_off_and_others_stay(leaving_only, written):
    kube = MemoryKube()
    counts = await release(kube, leaving_only=leaving_only)
    assert kube.written == written
    assert sum(counts.values()) == len(written)


async def test_what_changed_meanwhile_is_not_counted():
    assert await release(MemoryKube(changed={"going"}), leaving_only=False) == {
        "KafkaTopic": 1,
        "RackTopology": 1,
        "Reassignment": 0,
    }
