"""What came of passes."""

from rackspan.core.reassignment.move_decision import Progress
from rackspan.reconcile.plans.executor import Pass


def a_pass(copying=1, *, finished=False, size=0):
    """One with so many copies under way, each with a throttle, in a plan of two moves and so many bytes."""
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
    """Whether all is done, and nothing left over."""
    return seen.finished and not seen.waiting and not seen.throttles
