"""Carrying out a deletion: what goes is what was compared, and an object that changes meanwhile is let go later."""

import pytest
from tests.unit.reconcile.memory import MemoryKafka
from tests.unit.reconcile.scenes import known, scene, topic

from rackspan.api.labels import FINALIZER
from rackspan.reconcile import goodbye
from rackspan.reconcile.deletion import Step
from rackspan.reconcile.ports import ObjectRef

LEAVING = topic(deletionPolicy="Delete", status=known("id-of-orders"), finalizers=[FINALIZER])
REF = ObjectRef("KafkaTopic", LEAVING.key, LEAVING.meta.uid)


class MemoryKube:
    """Takes the finalizer away, unless the object `changed`."""

    def __init__(self, *, changed=False):
        self.changed = changed
        self.announced = []

    async def set_finalizers(self, ref, finalizers, version):
        return None if self.changed else {"metadata": {"finalizers": list(finalizers)}}

    def announce(self, announcement):
        self.announced.append(announcement.reason)


@pytest.fixture(autouse=True)
def _without_pause(monkeypatch):
    monkeypatch.setattr(goodbye, "_LAG_SECONDS", 0)


@pytest.fixture
def kafka():
    return MemoryKafka({"orders": ((0, 3, 2),) * 3})


async def test_the_topic_goes_and_then_the_object(kafka):
    kube = MemoryKube()
    assert await goodbye.let_go(LEAVING, REF, scene(), kafka, kube, is_owner=True) is None
    assert kafka.replicas == {}
    assert kube.announced == ["Deleted"]


async def test_one_that_was_made_anew_behind_a_broker_that_is_behind_is_kept(kafka):
    kube, ids = MemoryKube(), iter(["id-of-orders", "another-id"])
    kafka.ids = lambda _: next(ids)
    assert await goodbye.let_go(LEAVING, REF, scene(), kafka, kube, is_owner=True) is None
    assert kafka.made("delete_topics") == []
    assert kube.announced == ["Released"]


async def test_an_object_that_changes_meanwhile_is_let_go_later(kafka):
    words = await goodbye.let_go(LEAVING, REF, scene(), kafka, MemoryKube(changed=True), is_owner=True)
    assert words.step is Step.AGAIN
