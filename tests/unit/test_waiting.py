"""Waiting for a condition must not take the time of those that are waited for."""

import pytest
from dev import waiting


class Clock:
    """Time that passes only when a probe takes some, or somebody sleeps."""

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
def test_what_takes_long_to_ask_is_asked_less_often(clock, takes, rest):
    found = waiting.eventually(probe(clock, takes, [False, OSError(), "there"]), "it", timeout=200, retry_on=OSError)
    assert (found, clock.slept) == ("there", pytest.approx([rest, rest]))


def test_it_is_asked_once_more_after_the_last_rest(clock):
    assert waiting.eventually(probe(clock, 1.0, [0, 0, 7]), "it", timeout=5.5) == 7
    with pytest.raises(TimeoutError, match=r"waited 5\.5 s for it; last seen: 0"):
        waiting.eventually(probe(clock, 1.0, [0] * 9), "it", timeout=5.5)


def test_time_in_which_this_process_gets_no_cpu_does_not_count(clock):
    assert waiting.eventually(probe(clock, 500.0, [0, 0, 7]), "it", timeout=30) == 7
