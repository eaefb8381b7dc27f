"""Polling for a condition must not use the CPU time of the processes under test."""

import pytest
from dev import waiting


class Clock:
    """A clock that advances only during probes and sleeps."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def probe(clock, takes, answers):
    def ask():
        clock.now += takes
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


@pytest.mark.parametrize(("takes", "rest"), [(0.001, 0.1), (0.1, 0.3), (30.0, 2.0)])
def test_slow_probe_is_called_less_often(clock, takes, rest):
    found = waiting.eventually(probe(clock, takes, [False, OSError(), "there"]), "it", timeout=200, retry_on=OSError)
    assert (found, clock.slept) == ("there", pytest.approx([rest, rest]))


def test_probe_is_called_once_more_after_the_last_rest(clock):
    assert waiting.eventually(probe(clock, 1.0, [0, 0, 7]), "it", timeout=5.5) == 7
    with pytest.raises(TimeoutError, match=r"waited 5\.5 s for it; last seen: 0"):
        waiting.eventually(probe(clock, 1.0, [0] * 9), "it", timeout=5.5)


def test_long_probe_calls_count_only_in_part_towards_the_timeout(clock):
    assert waiting.eventually(probe(clock, 500.0, [0, 0, 7]), "it", timeout=30) == 7
