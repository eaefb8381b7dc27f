"""Namespaces get slots in turn, and no slot is lost."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rackspan.reconcile.runtime.writers import FairSlots


async def test_namespace_that_requests_many_slots_does_not_block_others():
    slots, served = FairSlots(1), []

    async def use(name):
        async with slots.slot(name):
            served.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for name in ("many", "many", "many", "many", "one", "other"):
            group.create_task(use(name))
    assert served == ["many", "many", "one", "other", "many", "many"]


@given(
    st.integers(1, 3), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 4)), max_size=12)
)
def test_slots_are_never_exceeded_and_all_are_returned(most, users):
    async def story():
        slots, held, ended = FairSlots(most), Counter(), []

        async def use(name, turns):
            async with slots.slot(name):
                held[name] += 1
                assert held.total() <= most
                try:
                    for _ in range(turns):
                        await asyncio.sleep(0)
                finally:
                    held[name] -= 1
            ended.append(name)

        tasks = []
        for name, turns, cancelled in users:
            tasks.append(asyncio.create_task(use(name, turns)))
            await asyncio.sleep(0)
            if cancelled < len(tasks) - 1:
                tasks[cancelled].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not held.total()
        async with asyncio.TaskGroup() as group:  # all slots are free again
            ready = asyncio.Barrier(most)

            async def meet():
                async with slots.slot("z"):
                    await ready.wait()

            for _ in range(most):
                group.create_task(meet())

    asyncio.run(story())
