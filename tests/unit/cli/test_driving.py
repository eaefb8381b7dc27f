"""What signals do to a plan that is carried out: the copies under way end first, unless somebody insists."""

import os
import signal
from dataclasses import dataclass, field

import pytest

from rackspan.cli.shared.driving import Ended, drive, take_back
from rackspan.core.reassignment.decision import Progress
from rackspan.reconcile.reassignments.executor import Pass


def seen(copying, *, finished=False):
    return Pass(Progress(2, 0, 0, 0), 0, finished, copying, (), (), copying)


@dataclass
class Scripted:
    """An executor whose passes are given; a signal in the script comes to this process before the pass ends."""

    script: list
    calls: list = field(default_factory=list)

    async def advance(self):
        return self._next("advance")

    async def wind_down(self):
        return self._next("wind down")

    async def take_back(self):
        return self._next("take back")

    async def pause(self):
        self.calls.append("pause")
        return seen(0)

    def _next(self, name):
        self.calls.append(name)
        copying, *signals = self.script.pop(0)
        for one in signals:
            os.kill(os.getpid(), one)
        return seen(0, finished=True) if copying is None else seen(copying)


class Silent:
    def __init__(self):
        self.told = []

    def show(self, one):
        pass

    def tell(self, event, message):
        self.told.append((event, message))


INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize(
    ("script", "calls", "ended"),
    [
        ([(2,), (None,)], ["advance", "advance"], Ended.FINISHED),
        ([(2, INT), (1,), (0,)], ["advance", "wind down", "wind down", "pause"], Ended.INTERRUPTED),
        ([(0, INT)], ["advance", "pause"], Ended.INTERRUPTED),
        ([(2, INT), (2, INT)], ["advance", "wind down", "pause"], Ended.INTERRUPTED),
        ([(2, TERM)], ["advance", "pause"], Ended.INTERRUPTED),
        ([(2, INT), (2, TERM)], ["advance", "wind down", "pause"], Ended.INTERRUPTED),
    ],
)
async def test_copies_under_way_end_first_unless_somebody_insists(script, calls, ended):
    executor, shown = Scripted(script), Silent()
    assert (await drive(executor, shown, 60))[0] is ended
    assert executor.calls == calls
    assert [event for event, _ in shown.told] == ["ending"] * ("wind down" in calls)


async def test_taking_back_ends_at_once_and_tells_what_is_still_under_way():
    executor = Scripted([(2, INT)])
    assert await take_back(executor, Silent(), 60) == (Ended.INTERRUPTED, seen(2))
    assert executor.calls == ["take back", "pause"]
