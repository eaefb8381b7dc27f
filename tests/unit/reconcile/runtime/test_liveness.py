"""A step without progress is reported, independent of other steps."""

import asyncio

from rackspan.reconcile.runtime.waiting import Liveness, progress


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_step_is_stalled_independent_of_other_steps():
    clock = Clock()
    liveness = Liveness(clock)
    with liveness.track("wedged"):
        for _ in range(5):
            clock.now += 100
            with liveness.track("quick"):
                pass
        assert liveness.stalled(300) == {"wedged": 500.0}
    assert liveness.stalled(0) == {}


def test_liveness_without_a_running_step_is_never_stalled():
    clock = Clock()
    liveness = Liveness(clock)
    clock.now += 10_000
    assert liveness.stalled(300) == {}


async def test_progress_in_a_task_counts_for_its_innermost_step():
    clock = Clock()
    liveness = Liveness(clock)

    async def call():
        clock.now += 200
        progress()

    with liveness.track("long"), liveness.track("batch"):
        for _ in range(3):
            await asyncio.create_task(call())
        assert liveness.stalled(300) == {"long": 600.0}, "progress in an inner step does not count for the outer step"


def test_progress_outside_of_any_step_is_ignored():
    progress()
