"""A step that does not get on is told, whatever else goes on beside it."""

import asyncio

from rackspan.reconcile.runtime.waiting import Liveness, progress


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_step_stalls_by_itself_while_others_come_and_go():
    clock = Clock()
    liveness = Liveness(clock)
    with liveness.track("wedged"):
        for _ in range(5):
            clock.now += 100
            with liveness.track("quick"):
                pass
        assert liveness.stalled(300) == {"wedged": 500.0}
    assert liveness.stalled(0) == {}


def test_what_waits_for_something_to_do_never_stalls():
    clock = Clock()
    liveness = Liveness(clock)
    clock.now += 10_000
    assert liveness.stalled(300) == {}


async def test_each_answer_is_progress_also_in_a_task_of_the_step():
    clock = Clock()
    liveness = Liveness(clock)

    async def call():
        clock.now += 200
        progress()

    with liveness.track("long"), liveness.track("batch"):
        for _ in range(3):
            await asyncio.create_task(call())
        assert liveness.stalled(300) == {"long": 600.0}, "the outer one does not get on by what is told within another"


def test_progress_outside_of_any_step_is_nobodys():
    progress()
