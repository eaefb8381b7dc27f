"""A repeated message updates the count of its first Event, so that a flapping condition does not flood a namespace."""

import asyncio
import itertools

import pytest
from prometheus_client import REGISTRY
from tests.unit.kube.recording import Answer, RecordingApi

from rackspan.api.meta import ObjectKey
from rackspan.kube import event_queue
from rackspan.kube.event_queue import (
    COMBINED,
    MAX_MESSAGES_PER_REASON,
    MAX_REMEMBERED,
    SERIES_SECONDS,
    Correlator,
    EventQueue,
)
from rackspan.kube.rest import Rest
from rackspan.reconcile.ports import KubernetesEvent, ObjectRef

ORDERS = ObjectRef("KafkaTopic", ObjectKey("shop", "orders"), "uid-1")


def said(message="Compliant", about=ORDERS, reason="NotCompliant"):
    return KubernetesEvent(about, reason, message, warning=True)


@pytest.fixture
def api():
    """Names created Events `orders.1`, `orders.2`, …; Events in `gone` have been deleted."""
    numbers = itertools.count(1)
    api = RecordingApi()
    api.gone = set()

    def answer(method, path):
        if method == "POST":
            return Answer(201, {"metadata": {"name": f"orders.{next(numbers)}"}})
        return Answer(404, {"message": "gone"}) if path.rpartition("/")[2] in api.gone else Answer()

    api.answer = answer
    return api


def dropped():
    return REGISTRY.get_sample_value("rackspan_events_dropped_total")


async def post(api, queue, *announcements):
    sent = len(api.sent)
    for announcement in announcements:
        await queue._post(announcement)
    return list(zip([method for method, _ in api.asked[sent:]], api.sent[sent:], strict=True))


async def test_repeated_message_increases_the_count_of_its_event(api):
    posted = await post(api, EventQueue(Rest(api)), said("a"), said("b"), said("a"), said("a"))
    assert [method for method, _ in posted] == ["POST", "POST", "PATCH", "PATCH"]
    assert [body["count"] for _, body in posted] == [1, 1, 2, 3]
    assert api.asked[-1][1] == "/api/v1/namespaces/shop/events/orders.1"


async def test_messages_with_one_reason_share_an_event_after_the_limit(api):
    queue = EventQueue(Rest(api))
    posted = await post(api, queue, *(said(str(number)) for number in range(50)))
    assert [method for method, _ in posted] == ["POST"] * (MAX_MESSAGES_PER_REASON + 1) + ["PATCH"] * (
        49 - MAX_MESSAGES_PER_REASON
    )
    assert posted[-1][1]["message"] == f"{COMBINED}49"
    assert posted[-1][1]["count"] == 50 - MAX_MESSAGES_PER_REASON


async def test_deleted_event_is_created_again(api):
    queue = EventQueue(Rest(api))
    await post(api, queue, said())
    api.gone.add("orders.1")
    posted = await post(api, queue, said())
    assert [method for method, _ in posted] == ["PATCH", "POST"]


async def test_drain_waits_until_all_queued_events_are_posted(api):
    queue = EventQueue(Rest(api))
    for number in range(5):
        queue.put(said(str(number)))
    posting = asyncio.create_task(queue.run())
    await queue.drain(60)
    assert [body["message"] for body in api.sent] == ["0", "1", "2", "3", "4"]
    posting.cancel()


async def test_drain_counts_the_events_that_are_not_posted_in_time_as_dropped(api):
    queue, before = EventQueue(Rest(api)), dropped()
    for _ in range(3):
        queue.put(said())
    await queue.drain(0)
    assert api.asked == []
    assert dropped() == before + 3


def of(namespace, message="Compliant"):
    return said(message, ObjectRef("KafkaTopic", ObjectKey(namespace, "orders"), f"uid-of-{namespace}"))


async def test_long_message_is_cut_when_it_is_queued_and_posted(api):
    queue = EventQueue(Rest(api))
    queue.put(said("x" * 1_000_000))
    assert [len(one.message) for one in queue._waiting["shop"]] == [1_000]

    running = asyncio.create_task(queue.run())
    await queue.drain(10)
    running.cancel()
    assert [len(body["message"]) for body in api.sent] == [1_000]
    assert [len(key[-1]) for key in queue._correlator._posted] == [1_000]


async def test_events_are_posted_round_robin_over_the_namespaces(api):
    queue = EventQueue(Rest(api))
    for number in range(100):
        queue.put(of("loud", str(number)))
    queue.put(of("calm"))
    posting = asyncio.create_task(queue.run())
    await queue.drain(60)
    posting.cancel()
    where = [path.split("/")[4] for _, path in api.asked]
    assert where.index("calm") <= 1
    assert (where.count("loud"), where.count("calm")) == (100, 1)


async def test_full_queue_drops_events_only_of_the_namespace_with_the_most(api, monkeypatch):
    monkeypatch.setattr(event_queue, "_MOST_WAITING", 10)
    queue, before = EventQueue(Rest(api)), dropped()
    for number in range(50):
        queue.put(of("loud", str(number)))
    for number in range(4):
        queue.put(of("calm", str(number)))
    assert dropped() == before + 44
    posting = asyncio.create_task(queue.run())
    await queue.drain(60)
    posting.cancel()
    where = [path.split("/")[4] for _, path in api.asked]
    assert (where.count("loud"), where.count("calm")) == (6, 4)
    assert [body["message"] for body in api.sent if "calm" in str(body)] == ["0", "1", "2", "3"]


async def test_full_queue_with_one_event_per_namespace_keeps_its_order(api, monkeypatch):
    monkeypatch.setattr(event_queue, "_MOST_WAITING", 3)
    queue = EventQueue(Rest(api))
    for name in "abcd":
        queue.put(of(name))
    posting = asyncio.create_task(queue.run())
    await queue.drain(60)
    posting.cancel()
    assert [path.split("/")[4] for _, path in api.asked] == ["b", "c", "d"]


@pytest.mark.parametrize(
    "other",
    [
        said(about=ObjectRef("KafkaTopic", ObjectKey("shop", "orders"), "uid-2")),
        said(reason="Compliant"),
        said("something else"),
    ],
)
def test_other_object_reason_or_message_is_another_event(other):
    correlator = Correlator()
    correlator.posted(correlator.series(said(), 0), "orders.1", 0)
    assert correlator.last(correlator.series(other, 1), 1) is None


def test_series_ends_after_ten_minutes():
    correlator = Correlator()
    for number in range(MAX_MESSAGES_PER_REASON):
        correlator.posted(correlator.series(said(str(number)), 0), f"orders.{number}", 0)
    assert correlator.series(said("x"), SERIES_SECONDS).message == f"{COMBINED}x"
    later = correlator.series(said("x"), SERIES_SECONDS + 1)
    assert later.message == "x"
    assert correlator.last(correlator.series(said("1"), SERIES_SECONDS + 1), SERIES_SECONDS + 1) is None


def test_correlator_remembers_a_bounded_number_of_events():
    correlator = Correlator()
    for number in range(3 * MAX_REMEMBERED):
        about = ObjectRef("KafkaTopic", ObjectKey("shop", str(number)), str(number))
        correlator.posted(correlator.series(said(about=about), 0), "a", 0)
    assert len(correlator._posted) == len(correlator._sentences) == MAX_REMEMBERED
