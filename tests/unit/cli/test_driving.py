"""Effect of signals on a running plan: SIGINT lets running copies end first; other signals stop at once."""

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
    """An executor with scripted passes. It sends the signals of a pass to this process before the pass ends."""

    script: list
    calls: list = field(default_factory=list)
    record: object = field(default_factory=lambda: SimpleNamespace(throttles=("one",), started={}))
    away: list = field(default_factory=list)
    """Signals that arrive while `pause` fails because Kafka does not respond."""

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
    """A display that prints nothing and loses standard output at pass number `loses_at`."""

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
async def test_sigint_lets_running_copies_end_and_a_second_or_other_signal_stops_at_once(script, calls, ended):
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
async def test_sigint_before_the_first_complete_pass_waits_for_copies_of_an_earlier_command(
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
async def test_lost_standard_output_lets_running_copies_end_and_starts_no_others(script, calls, ended):
    executor, shown = Scripted(script), Silent(loses_at=2)
    assert (await driven(executor, shown))[0] is ended
    assert executor.calls == calls


async def test_cancel_continues_after_standard_output_is_lost():
    executor = Scripted([(2,), (1,), (None,)])
    assert (await driven(executor, Silent(loses_at=1), take_back))[0] is Ended.FINISHED


async def test_sigint_stops_a_cancel_at_once_and_returns_the_result_of_pause():
    executor = Scripted([(2, INT)])
    assert await driven(executor, Silent(), take_back) == (Ended.INTERRUPTED, a_pass(0))
    assert executor.calls == ["take back", "pause"]


@pytest.mark.parametrize("one", [INT, TERM, HUP, QUIT])
async def test_signals_do_not_stop_the_clearing_of_throttles(one):
    """Kafka does not respond to two requests, and a signal arrives each time."""
    executor, shown = Scripted([(2, TERM)], away=[one, one]), Silent()
    assert (await driven(executor, shown))[0] is Ended.INTERRUPTED
    assert executor.calls == ["advance", "pause", "pause", "pause"]
    assert any("only SIGKILL ends it" in message for _, message in shown.told) == (one == INT)


async def test_sighup_that_nohup_ignores_does_not_stop_the_plan():
    before = signal.signal(HUP, signal.SIG_IGN)
    try:
        executor = Scripted([(2, HUP), (None,)])
        assert (await driven(executor, Silent()))[0] is Ended.FINISHED
    finally:
        signal.signal(HUP, before)
