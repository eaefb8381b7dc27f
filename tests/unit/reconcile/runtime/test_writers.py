"""A status is written when it changed, and what it does not say is gone from the API server."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rackspan.api.meta import ObjectKey
from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.runtime.writers import StatusWriter

REF = ObjectRef("KafkaTopic", ObjectKey("shop", "orders"), "uid-1")
AWAY = FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "connection refused", Remedy.RETRY))


class Kube:
    """An API server that holds one status. `answers` says of each write in turn how it goes, and beyond: well."""

    def __init__(self, status=None, answers=()):
        self.status, self.answers = dict(status or {}), list(answers)
        self.writes, self.at_once, self.most_at_once = [], 0, 0

    async def replace_status(self, ref, status):
        self.writes.append(status)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        answer = self.answers.pop(0) if self.answers else "taken"
        if answer != "refused":
            self.status = dict(status)
        if answer != "taken":
            raise AWAY
        return {"status": self.status}


async def test_an_unchanged_status_is_not_written():
    kube = Kube()
    assert await StatusWriter(kube).write(REF, {"a": 1}, {"a": 1}) is None
    assert kube.writes == []


async def test_a_write_that_failed_is_made_up_for_by_the_next_one():
    kube = Kube({"topicId": "x", "partitions": 3}, ["refused"])
    writer = StatusWriter(kube)
    old, new = dict(kube.status), {"topicId": "x", "partitions": 6}
    with pytest.raises(FailureError):
        await writer.write(REF, old, new)
    await writer.write(REF, new, new)  # the caller believes by now what it has seen
    assert kube.status == new
    assert await writer.write(REF, new, new) is None


async def test_many_statuses_are_written_side_by_side_but_not_all_at_once():
    kube = Kube()
    writer = StatusWriter(kube)
    refs = [ObjectRef("KafkaTopic", ObjectKey("shop", str(number)), str(number)) for number in range(100)]
    await asyncio.gather(*(writer.write(ref, {}, {"a": number}) for number, ref in enumerate(refs)))
    assert len(kube.writes) == 100
    assert 1 < kube.most_at_once <= 20


async def test_a_topology_does_not_wait_for_the_statuses_of_its_topics():
    written = []

    class Busy(Kube):
        async def replace_status(self, ref, status):
            if ref.kind == "KafkaTopic":
                await asyncio.Event().wait()
            written.append(ref.kind)

    writer = StatusWriter(Busy())
    refs = [ObjectRef("KafkaTopic", ObjectKey("shop", str(number)), str(number)) for number in range(100)]
    topics = [asyncio.create_task(writer.write(ref, {}, {"a": 1})) for ref in refs]
    await asyncio.sleep(0)
    async with asyncio.timeout(300):
        await writer.write(ObjectRef("RackTopology", ObjectKey("shop", "main"), "uid-2"), {}, {"a": 1})
    for topic in topics:
        topic.cancel()
    assert written == ["RackTopology"]


async def test_a_field_whose_write_was_not_answered_is_gone_when_the_next_status_has_none():
    kube = Kube(answers=["lost"])
    writer = StatusWriter(kube)
    with pytest.raises(FailureError):
        await writer.write(REF, {}, {"plan": {"hash": "a1"}})
    assert kube.status == {"plan": {"hash": "a1"}}
    await writer.write(REF, {}, {})
    assert kube.status == {}


statuses = st.dictionaries(
    st.sampled_from("abc"), st.integers(0, 2) | st.dictionaries(st.sampled_from("xy"), st.just(1))
)


@given(
    st.lists(st.tuples(statuses, st.sampled_from(["taken", "refused", "lost"]), st.booleans()), max_size=8), statuses
)
def test_whichever_answers_are_lost_the_next_write_that_is_answered_settles_the_status(history, last):
    """`heard`: whether the watch tells the caller what the API server has; else it believes what it wanted to write."""

    async def story():
        kube = Kube(answers=[answer for _, answer, _ in history])
        writer = StatusWriter(kube)
        believed = {}
        for status, _, heard in history:
            with contextlib.suppress(FailureError):
                await writer.write(REF, believed, status)
            believed = dict(kube.status) if heard else status
        kube.answers = []
        await writer.write(REF, believed, last)
        assert kube.status == last

    asyncio.run(story())
