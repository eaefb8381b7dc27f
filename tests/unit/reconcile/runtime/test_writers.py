"""A status is written if it has changed, and fields that it does not have are removed from the API server."""

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
    """An API server with one status. `answers` are the results of the first writes in order. Later writes succeed."""

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


async def test_failed_write_is_repeated_by_the_next_write():
    kube = Kube({"topicId": "x", "partitions": 3}, ["refused"])
    writer = StatusWriter(kube)
    old, new = dict(kube.status), {"topicId": "x", "partitions": 6}
    with pytest.raises(FailureError):
        await writer.write(REF, old, new)
    await writer.write(REF, new, new)  # the caller assumes that its last status was written
    assert kube.status == new
    assert await writer.write(REF, new, new) is None


async def test_many_statuses_are_written_concurrently_up_to_a_limit():
    kube = Kube()
    writer = StatusWriter(kube)
    refs = [ObjectRef("KafkaTopic", ObjectKey("shop", str(number)), str(number)) for number in range(100)]
    await asyncio.gather(*(writer.write(ref, {}, {"a": number}) for number, ref in enumerate(refs)))
    assert len(kube.writes) == 100
    assert 1 < kube.most_at_once <= 20


async def test_writes_of_one_status_are_sent_in_order_one_at_a_time():
    kube = Kube()
    writer = StatusWriter(kube)
    await asyncio.gather(*(writer.write(REF, {}, {"a": number}) for number in range(5)))
    assert kube.most_at_once == 1
    assert kube.writes == [{"a": number} for number in range(5)]
    assert not writer._turns


async def test_status_that_another_write_is_changing_is_written_although_it_is_as_last_read():
    kube = Kube({"a": 1})
    writer = StatusWriter(kube)
    await asyncio.gather(writer.write(REF, {"a": 1}, {"a": 2}), writer.write(REF, {"a": 1}, {"a": 1}))
    assert kube.status == {"a": 1}


async def test_status_of_a_topology_does_not_wait_for_statuses_of_topics():
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


async def test_field_whose_write_had_no_response_is_removed_by_the_next_status():
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
def test_next_answered_write_sets_the_status_after_any_lost_responses(history, last):
    """`heard`: the caller knows the stored status from its watch. Else it assumes that its last status was written."""

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
