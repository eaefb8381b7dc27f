"""The work queue never loses a key and never gives a key to two workers at the same time."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from rackspan.reconcile.runtime.workqueue import WorkQueue


def work_queue(group_of=lambda _: "all", busy_batches=10):
    """Return a queue of one group, with room for all the batches of a test."""
    return WorkQueue(group_of, busy_batches)


key = st.integers(0, 4)
operation = st.one_of(
    st.tuples(st.just("add"), st.lists(key, min_size=1, max_size=4)),
    st.tuples(st.just("take"), st.integers(1, 3)),
    st.tuples(st.just("done"), st.integers(0, 3)),
    st.tuples(st.just("drop"), key),
)


@given(st.lists(operation, max_size=40), st.integers(1, 5))
def test_each_added_key_is_returned_once_and_to_one_worker_at_a_time(operations, groups):
    async def story():
        queue = work_queue(lambda key: key % groups)
        due, batches = set(), []

        async def take(most):
            taken = await queue.get_batch(most, 0, 0)
            assert len(set(taken)) == len(taken) <= most
            assert due.issuperset(taken)
            assert not {key for batch in batches for key in batch}.intersection(taken)
            busy = {key % groups for batch in batches for key in batch}
            idle = {key % groups for key in due} - busy
            assert {key % groups for key in taken} <= (idle or busy)
            due.difference_update(taken)
            batches.append(taken)

        for name, argument in operations:
            if name == "add":
                queue.add(argument)
                due.update(argument)
            elif name == "drop":
                queue.remove(argument)
                due.discard(argument)
            elif name == "take" and len(queue):
                await take(argument)
            elif name == "done" and batches:
                queue.done(batches.pop(argument % len(batches)))
        while batches:
            queue.done(batches.pop())
        while len(queue):
            await take(3)
            queue.done(batches.pop())
        assert not due

    asyncio.run(story())


async def test_oldest_keys_are_returned_first():
    queue = work_queue()
    queue.add("cab")
    assert await queue.get_batch(2, 0, 0) == ["c", "a"]
    assert await queue.get_batch(2, 0, 0) == ["b"]


async def busy():
    """Return a queue with one key that is being processed."""
    queue = work_queue()
    queue.add(["under way"])
    assert await queue.get_batch(1, 0, 0) == ["under way"]
    return queue


async def test_get_batch_does_not_linger_if_no_key_is_being_processed():
    queue = work_queue()
    queue.add(["a"])
    assert await asyncio.wait_for(queue.get_batch(10, 3600, 0), 90) == ["a"]
    queue.done(["a"])
    queue.add(["b"])
    assert await asyncio.wait_for(queue.get_batch(10, 3600, 0), 90) == ["b"]


async def test_keys_added_during_the_linger_time_join_the_batch():
    queue = await busy()
    queue.add(["a"])
    taking = asyncio.create_task(queue.get_batch(10, 0.05, 0))
    await asyncio.sleep(0)
    queue.add(["b", "c"])
    assert await taking == ["a", "b", "c"]


async def test_batch_grows_with_a_stream_of_keys_until_the_maximum_linger_time():
    queue, loop = await busy(), asyncio.get_running_loop()
    queue.add([0])
    start = loop.time()
    taking = asyncio.create_task(queue.get_batch(10_000, 0.04, 0.2))
    number = 0
    while not taking.done():
        number += 1
        queue.add([number])
        await asyncio.sleep(0.01)
    assert loop.time() - start >= 0.2
    assert 1 < len(taking.result()) < 10_000


async def test_get_batch_waits_until_a_key_is_added():
    queue = work_queue()
    taking = asyncio.create_task(queue.get_batch(1, 0, 0))
    await asyncio.sleep(0)
    assert not taking.done()
    queue.add(["a"])
    assert await taking == ["a"]


async def test_two_workers_get_different_keys():
    queue = work_queue()
    workers = [asyncio.create_task(queue.get_batch(1, 0, 0)) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add(["a", "b"])
    assert sorted(key for batch in await asyncio.gather(*workers) for key in batch) == ["a", "b"]


async def test_earliest_of_several_delays_counts():
    queue = work_queue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("a", 30)
    assert await asyncio.wait_for(queue.get_batch(1, 0, 0), 90) == ["a"]


async def test_delayed_key_is_not_returned_again_after_an_immediate_add():
    queue = work_queue()
    queue.add_after("a", 0.01)
    queue.add(["a"])
    queue.done(await queue.get_batch(1, 0, 0))
    queue.add_after("b", 0.05)
    assert await asyncio.wait_for(queue.get_batch(2, 0, 0), 90) == ["b"]


async def test_removed_key_is_not_returned_after_its_delay():
    queue = work_queue()
    queue.add_after("a", 0.01)
    queue.remove("a")
    queue.add_after("b", 0.05)
    assert await asyncio.wait_for(queue.get_batch(2, 0, 0), 90) == ["b"]


def test_delay_grows_with_each_failure_until_the_key_is_forgotten(monkeypatch):
    queue, asked = work_queue(), []
    monkeypatch.setattr(queue, "add_after", lambda key, seconds: asked.append((key, seconds)))
    for _ in range(2):
        queue.add_rate_limited("a")
    queue.forget("a")
    queue.add_rate_limited("a")
    assert [key for key, _ in asked] == ["a"] * 3
    first, second, again = (seconds for _, seconds in asked)
    assert 0.3 < first < second
    assert 0.3 < again < second


def by_first_letter(key):
    return key[0]


async def busy_group(**limits):
    """Return a queue in which group `a` has a batch in progress."""
    queue = work_queue(by_first_letter, **limits)
    queue.add(["a1"])
    assert await queue.get_batch(10, 3600, 0) == ["a1"]
    return queue


async def test_idle_group_does_not_linger_or_share_a_batch_with_a_busy_group():
    queue = await busy_group()
    queue.add(["a2"])
    taking = asyncio.create_task(queue.get_batch(10, 3600, 0))
    await asyncio.sleep(0)
    queue.add(["a3", "b1", "c1", "b2"])
    assert await asyncio.wait_for(taking, 90) == ["b1", "b2", "c1"]
    queue.done(["a1"])
    assert await asyncio.wait_for(queue.get_batch(10, 3600, 0), 90) == ["a2", "a3"]


async def test_busy_groups_leave_batches_for_other_groups():
    queue = await busy_group(busy_batches=1)
    queue.add(["a2"])
    taking = asyncio.create_task(queue.get_batch(10, 0, 0))
    await asyncio.sleep(0.05)
    assert not taking.done()
    queue.add(["b1"])
    assert await asyncio.wait_for(taking, 90) == ["b1"]
    taking = asyncio.create_task(queue.get_batch(10, 0, 0))
    queue.done(["b1"])
    await asyncio.sleep(0.05)
    assert not taking.done()
    queue.done(["a1"])
    assert await asyncio.wait_for(taking, 90) == ["a2"]


async def test_busy_groups_take_turns():
    queue = work_queue(by_first_letter)
    queue.add(["a1", "b1"])
    await queue.get_batch(10, 0, 0)
    queue.add(["a2", "a3", "a4", "b2"])
    assert [await queue.get_batch(2, 0, 0) for _ in range(3)] == [["a2", "a3"], ["b2"], ["a4"]]


async def test_queue_that_waits_for_a_free_batch_does_not_poll():
    queue = await busy_group(busy_batches=1)
    queue.add(["a2"])
    taking = asyncio.create_task(queue.get_batch(10, 0.01, 0))
    looks = []
    look, queue._next_look = queue._next_look, lambda: looks.append(1) or look()
    await asyncio.sleep(0.1)
    assert len(looks) <= 2
    queue.done(["a1"])
    assert await asyncio.wait_for(taking, 90) == ["a2"]
