"""Concurrent requests to Kafka share few calls, and each caller gets the response to its request."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from tests.unit.reconcile.memory import MemoryKafka

from rackspan.api.reasons import Reason
from rackspan.reconcile.cluster.batching import CommitGroup, GroupedAdmin
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.ports import NewTopic

LIMIT = 5
REFUSED = FailureError(Failure(Reason.INVALID_CONFIG, "no", Remedy.SPEC))
AWAY = FailureError(Failure(Reason.KAFKA_UNREACHABLE, "no answer", Remedy.RETRY))


class Kafka:
    """Returns each item's name in capitals after `go` is set. A name in `bad` makes the whole call fail."""

    def __init__(self, bad=(), error=REFUSED, *, held=False):
        self.calls, self.bad, self.error = [], set(bad), error
        self.under_way = self.most = 0
        self.go = asyncio.Event()
        if not held:
            self.go.set()

    async def call(self, items):
        self.calls.append(list(items))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.go.wait()
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.bad.intersection(items):
            raise self.error
        return {item: item.upper() for item in items if not item.endswith("-gone")}


def group(kafka):
    return CommitGroup(kafka.call, lambda _: 1, LIMIT)


def asked(names):
    return {name: name for name in names}


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1, max_size=4), max_size=12))
def test_concurrent_requests_are_answered_by_one_call_at_a_time_within_the_limit(requests):
    async def run():
        kafka = Kafka()
        one = group(kafka)
        answers = await asyncio.gather(*(one.submit(asked(sorted(names))) for names in requests))
        assert answers == [{name: name.upper() for name in names} for names in requests]
        assert kafka.most <= 1
        assert all(len(set(call)) == len(call) <= LIMIT for call in kafka.calls)
        assert sum(map(len, kafka.calls)) == sum(map(len, requests))

    asyncio.run(run())


async def test_requests_during_a_call_share_the_next_call():
    kafka = Kafka(held=True)
    one = group(kafka)
    tasks = [asyncio.create_task(one.submit(asked([name]))) for name in "a"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(one.submit(asked([name]))) for name in "bcd"]
    await asyncio.sleep(0)
    kafka.go.set()
    await asyncio.gather(*tasks)
    assert kafka.calls == [["a"], ["b", "c", "d"]]


async def test_request_that_makes_a_call_fail_does_not_affect_others():
    kafka = Kafka(bad={"b"})
    one = group(kafka)
    answers = await asyncio.gather(*(one.submit(asked([name])) for name in "abc"), return_exceptions=True)
    assert answers == [{"a": "A"}, REFUSED, {"c": "C"}]


async def test_requests_without_response_are_not_repeated():
    """It is unknown whether Kafka has made the change."""
    kafka = Kafka(bad={"b"}, error=AWAY)
    one = group(kafka)
    answers = await asyncio.gather(*(one.submit(asked([name])) for name in "abc"), return_exceptions=True)
    assert answers == [AWAY] * 3
    assert kafka.calls == [["a", "b", "c"]]


async def test_cancelled_request_does_not_affect_others():
    kafka = Kafka(held=True)
    one = group(kafka)
    sent, given_up, other = (asyncio.create_task(one.submit(asked([name]))) for name in "abc")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.create_task(one.submit(asked("d")))
    third = asyncio.create_task(one.submit(asked("e")))
    await asyncio.sleep(0)
    given_up.cancel()
    second.cancel()
    await asyncio.sleep(0)
    kafka.go.set()
    assert (await sent, await other, await third) == ({"a": "A"}, {"c": "C"}, {"e": "E"})
    assert kafka.calls == [["a", "b", "c"], ["e"]]
    with pytest.raises(asyncio.CancelledError):
        await given_up


async def test_unexpected_error_is_raised_to_the_caller_and_the_next_call_works():
    kafka = Kafka(bad={"a"}, error=ValueError("defect"))
    one = group(kafka)
    with pytest.raises(ValueError, match="defect"):
        await one.submit(asked("a"))
    assert await one.submit(asked("b")) == {"b": "B"}


async def test_result_leaves_out_items_without_response():
    assert await group(Kafka()).submit(asked(["a", "b-gone"])) == {"a": "A"}
    assert await group(Kafka()).submit({}) == {}


async def test_batch_size_metric_counts_calls_that_reach_kafka():
    def counted(what):
        return REGISTRY.get_sample_value(f"rackspan_batch_topics_{what}", {"operation": "create_topics"}) or 0

    calls, topics = counted("count"), counted("sum")
    kafka = MemoryKafka()
    admin = GroupedAdmin(kafka)
    new = [NewTopic(name, 1, 1, ((1,),), {}) for name in "abc"]
    await asyncio.gather(*(admin.create_topics([one]) for one in new))
    assert kafka.made("create_topics") == [["a", "b", "c"]]
    assert (counted("count") - calls, counted("sum") - topics) == (1, 3)
