"""What signals do to a plan that is carried out: the copies under way end first, unless somebody insists."""

import errno
import os
import signal
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from tests.support.passes import a_pass

from rackspan.api.reasons import Reason
from rackspan.cli.shared.driving import Ended, drive, heard, take_back
from rackspan.reconcile.failures import Failure, FailureError, Remedy


@dataclass
class Scripted:
    """An executor whose passes are given; a signal in the script comes to this process before the pass ends."""

    script: list
    calls: list = field(default_factory=list)
    record: object = field(default_factory=lambda: SimpleNamespace(throttles=("one",), started={}))
    away: list = field(default_factory=list)
    """Signals that come while Kafka does not answer to `pause`."""

    async def advance(self):
        return self._next("advance")

    async def wind_down(self):
        return self._next("wind down")

    async def take_back(self):
        return self._next("take back")

    async def pause(self):
        self.calls.append("pause")
        if self.away:
            os.kill(os.getpid(), self.away.pop())
            raise FailureError(Failure(Reason.KAFKA_UNREACHABLE, "away", Remedy.RETRY))
        return a_pass(0)

    def _next(self, name):
        self.calls.append(name)
        copying, *signals = self.script.pop(0)
        for one in signals:
            os.kill(os.getpid(), one)
        if copying is AWAY:
            raise FailureError(Failure(Reason.KAFKA_UNREACHABLE, "away", Remedy.RETRY))
        return a_pass(0, finished=True) if copying is None else a_pass(copying)


class Silent:
    """Shows nothing, and loses standard output at the pass of that number."""

    def __init__(self, loses_at=None):
        self.told, self.lost = [], None
        self._left = loses_at

    def show(self, one):
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self.lost = BrokenPipeError(errno.EPIPE, "Broken pipe")

    def report(self, event, message):
        self.told.append((event, message))


AWAY = "Kafka does not answer"
INT, TERM, HUP, QUIT = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT


async def driven(executor, shown, how=drive):
    with heard(shown) as signals:
        return await how(executor, shown, 60, signals)


@pytest.mark.parametrize(
    ("script", "calls", "ended"),
    [
        ([(2,), (None,)], ["advance", "advance"], Ended.FINISHED),
        ([(2, INT), (1,), (0,)], ["advance", "wind down", "wind down", "pause"], Ended.INTERRUPTED),
        ([(0, INT)], ["advance", "pause"], Ended.INTERRUPTED),
        ([(2, INT), (2, INT)], ["advance", "wind down", "pause"], Ended.INTERRUPTED),
        ([(2, TERM)], ["advance", "pause"], Ended.INTERRUPTED),
        ([(2, HUP)], ["advance", "pause"], Ended.INTERRUPTED),
        ([(2, QUIT)], ["advance", "pause"], Ended.INTERRUPTED),
        ([(2, HUP, HUP, TERM)], ["advance", "pause"], Ended.INTERRUPTED),
        ([(2, INT), (2, TERM)], ["advance", "wind down", "pause"], Ended.INTERRUPTED),
        ([(2, INT), (2, HUP)], ["advance", "wind down", "pause"], Ended.INTERRUPTED),
    ],
)
async def test_copies_under_way_end_first_unless_somebody_insists(script, calls, ended):
    executor, shown = Scripted(script), Silent()
    assert (await driven(executor, shown))[0] is ended
    assert executor.calls == calls
    assert [event for event, _ in shown.told] == ["ending"] * ("wind down" in calls)


@pytest.mark.parametrize(
    ("throttles", "started", "script", "calls"),
    [
        (("one",), {}, [(AWAY, INT), (1,), (0,)], ["advance", "wind down", "wind down", "pause"]),
        ((), {"orders-0": (0, 1)}, [(AWAY, INT), (AWAY,), (0,)], ["advance", "wind down", "wind down", "pause"]),
        (("one",), {}, [(AWAY, INT), (AWAY, INT)], ["advance", "wind down", "pause"]),
        (("one",), {}, [(AWAY, TERM)], ["advance", "pause"]),
        ((), {}, [(AWAY, INT)], ["advance", "pause"]),
    ],
)
async def test_copies_of_an_earlier_command_end_first_where_no_pass_has_seen_them_yet(
    throttles, started, script, calls
):
    executor = Scripted(script, record=SimpleNamespace(throttles=throttles, started=started))
    assert (await driven(executor, Silent()))[0] is Ended.INTERRUPTED
    assert executor.calls == calls


@pytest.mark.parametrize(
    ("script", "calls", "ended"),
    [
        ([(2,), (2,), (1,), (0,)], ["advance", "advance", "wind down", "wind down", "pause"], Ended.UNSEEN),
        ([(2,), (2,), (1, INT)], ["advance", "advance", "wind down", "pause"], Ended.UNSEEN),
        ([(2,), (None,)], ["advance", "advance"], Ended.FINISHED),
    ],
)
async def test_where_nobody_reads_any_more_copies_under_way_end_and_no_other_begins(script, calls, ended):
    executor, shown = Scripted(script), Silent(loses_at=2)
    assert (await driven(executor, shown))[0] is ended
    assert executor.calls == calls


async def test_cancelling_goes_on_where_nobody_reads_any_more():
    executor = Scripted([(2,), (1,), (None,)])
    assert (await driven(executor, Silent(loses_at=1), take_back))[0] is Ended.FINISHED


async def test_taking_back_ends_at_once_and_tells_which_throttles_are_left_then():
    executor = Scripted([(2, INT)])
    assert await driven(executor, Silent(), take_back) == (Ended.INTERRUPTED, a_pass(0))
    assert executor.calls == ["take back", "pause"]


@pytest.mark.parametrize("one", [INT, TERM, HUP, QUIT])
async def test_no_signal_ends_the_clearing_of_throttles(one):
    """Kafka does not answer twice, and each time somebody loses patience."""
    executor, shown = Scripted([(2, TERM)], away=[one, one]), Silent()
    assert (await driven(executor, shown))[0] is Ended.INTERRUPTED
    assert executor.calls == ["advance", "pause", "pause", "pause"]
    assert any("only SIGKILL ends it" in message for _, message in shown.told) == (one == INT)


async def test_a_hang_up_that_nohup_ignores_stops_nothing():
    before = signal.signal(HUP, signal.SIG_IGN)
    try:
        executor = Scripted([(2, HUP), (None,)])
        assert (await driven(executor, Silent()))[0] is Ended.FINISHED
    finally:
        signal.signal(HUP, before)
