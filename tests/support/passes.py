"""Results of passes of the executor."""

from rackspan.core.reassignment.move_decision import Progress
from rackspan.reconcile.plans.executor import Pass


def a_pass(copying=1, *, finished=False, size=0):
    """Return a pass with `copying` copies, each with a throttle, of a plan with two moves and `size` bytes."""
    return Pass(
        progress=Progress(2, 0, size, 0),
        partial_bytes=0,
        finished=finished,
        copying=copying,
        waiting=(),
        failures=(),
        throttles=copying,
        left_alone=(),
        rate=None,
        pace=None,
        reached=(0, 0, 0),
        under_way=0,
        as_planned=False,
    )


def is_complete(seen):
    """Return whether the plan is finished and no throttle is left."""
    return seen.finished and not seen.waiting and not seen.throttles
