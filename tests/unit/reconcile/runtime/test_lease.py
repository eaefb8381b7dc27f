"""One operator at a time acts, whatever clocks show and whichever answers are lost."""

import asyncio
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.lease import Candidate, LeaderElection, LeaseRecord
from rackspan.reconcile.runtime.lease_timing import Timing
from rackspan.reconcile.runtime.waiting import Liveness

TIMING = Timing()
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
AWAY = FailureError(Failure(Reason.API_SERVER_UNREACHABLE, "away", Remedy.RETRY))


class Server:
    """The API server's one Lease. Writes count only in the place of the version that was read."""

    def __init__(self):
        self.record = None
        self.away = False
        self.was_read = asyncio.Event()
        self._version = 0

    async def read(self):
        self.was_read.set()
        if self.away:
            raise AWAY
        return self.record

    async def write(self, record, *, taken):
        if self.away:
            raise AWAY
        return self.put(record)

    def put(self, record):
        if record.version != (self.record.version if self.record else ""):
            return None
        self._version += 1
        self.record = replace(record, version=str(self._version))
        return self.record

    def annotate(self):
        """Somebody who is no candidate writes to the Lease."""
        if self.record is not None:
            self._version += 1
            self.record = replace(self.record, version=str(self._version))

    async def release(self, identity):
        if self.away:
            raise AWAY
        if self.record is not None and self.record.holder == identity:
            self.put(replace(self.record, holder=""))


@dataclass
class Simulated:
    """An operator whose clock has its own start, and which may be cut off or paused."""

    candidate: Candidate
    skew: float
    writes_time: bool = False
    """Whether its renewals say when they are, by a clock of its own, as those of Rackspan and client-go do."""
    cut_until: float = 0.0
    next_attempt: float = 0.0

    def attempt(self, server, now, chance):
        local = now + self.skew
        self.next_attempt = now + TIMING.retry_period_seconds * chance.uniform(0.5, 2)
        if now < self.cut_until:
            return
        if chance.random() < 0.03:
            self.cut_until = now + chance.uniform(1, 90)
        self.candidate = self.candidate.after_read(server.record, local)
        wanted = self.candidate.next_record(local)
        if wanted is None:
            self.candidate = self.candidate.resigned() if self.candidate.other_holder else self.candidate
            return
        renewed_at = NOON + timedelta(seconds=local) if self.writes_time else None
        written = server.put(replace(wanted, renewed_at=renewed_at))
        took = chance.choice([0.0, 0.0, 1.0, TIMING.request_timeout_seconds])
        if written is not None and chance.random() < 0.8:  # else the answer is lost
            self.candidate = self.candidate.after_renewal(written, local, local + took)


@pytest.mark.parametrize("writes_time", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_no_two_operators_act_at_once_and_none_acts_while_anothers_change_is_under_way(seed, writes_time):
    chance, server = random.Random(seed), Server()
    operators = [Simulated(Candidate(name), chance.uniform(-1e6, 1e6), writes_time) for name in ("a", "b", "c")]
    last_act: dict[str, float] = {}
    acted = set()
    for tick in range(8000):
        now = tick / 4
        for operator in operators:
            if now >= operator.next_attempt:
                operator.attempt(server, now, chance)
        if tick == 4000:
            server.record = None  # somebody deletes the Lease
        if writes_time and chance.random() < 0.3:
            server.annotate()
        acting = [one.candidate.identity for one in operators if one.candidate.is_leader(now + one.skew)]
        assert len(acting) <= 1
        for name in acting:
            last_act[name] = now
            acted.add(name)
            for other, at in last_act.items():
                assert other == name or now - at > TIMING.change_timeout_seconds, f"{other}'s change may be under way"
    assert len(acted) > 1, "the Lease changed hands"


def test_a_lease_is_taken_only_after_its_whole_time_as_seen_here():
    held = LeaseRecord("other", 30, 4, "7")
    candidate = Candidate("me").after_read(held, 100.0)
    assert candidate.next_record(129.9) is None
    assert candidate.after_read(held, 129.0).next_record(130.0) == LeaseRecord("me", 30, 5, "7")
    assert candidate.after_read(replace(held, version="8"), 129.0).next_record(130.0) is None


def test_a_lease_whose_holder_is_dead_is_taken_however_often_others_write_to_it():
    held = LeaseRecord("other", 30, 4, "7", NOON)
    candidate = Candidate("me").after_read(held, 100.0)
    for second in range(1, 30):
        candidate = candidate.after_read(replace(held, version=f"8{second}"), 100.0 + second)
        assert candidate.next_record(100.0 + second) is None
    assert candidate.next_record(130.0) == LeaseRecord("me", 30, 5, "829")


def test_a_renewal_is_known_by_its_time_whatever_clock_shows_it():
    held = LeaseRecord("other", 30, 4, "7", NOON)
    earlier = replace(held, version="8", renewed_at=NOON - timedelta(hours=1))
    candidate = Candidate("me").after_read(held, 100.0).after_read(earlier, 110.0)
    assert candidate.next_record(139.9) is None
    assert candidate.next_record(140.0) == LeaseRecord("me", 30, 5, "8")


def test_a_lease_that_is_deleted_may_have_been_renewed_just_before():
    held = LeaseRecord("other", 30, 4, "7", NOON)
    candidate = Candidate("me").after_read(held, 0.0).after_read(None, 10.0).after_read(None, 11.0)
    assert candidate.next_record(39.9) is None
    made_anew = candidate.after_read(replace(held, version="9"), 20.0)
    assert made_anew.next_record(49.9) is None
    assert candidate.next_record(40.0) == LeaseRecord("me", 30, 5, "")


def test_the_same_identity_has_its_lease_back_at_once():
    assert Candidate("me").after_read(LeaseRecord("me", 30, 4, "7"), 0.0).next_record(0.0) is not None


def test_one_that_was_let_go_of_is_taken_at_once():
    assert Candidate("me").after_read(LeaseRecord("", 1, 4, "7"), 0.0).next_record(0.0) == LeaseRecord("me", 30, 5, "7")


def test_a_lease_that_is_deleted_still_has_its_holder():
    candidate = (
        Candidate("me").after_read(LeaseRecord("other", 30, 4, "7"), 0.0).after_read(None, 10.0).after_read(None, 11.0)
    )
    assert candidate.next_record(39.0) is None
    assert candidate.next_record(40.0) == LeaseRecord("me", 30, 5, "")


def test_after_a_time_without_the_api_server_watch_events_are_waited_for():
    record = LeaseRecord("me", 30, 0, "1")
    candidate = Candidate("me").after_renewal(record, 0.0, 1.0)
    assert candidate.is_leader(1.0)
    assert candidate.is_leader(14.9)
    assert not candidate.is_leader(15.0)
    again = candidate.after_renewal(record, 40.0, 41.0)
    assert not again.is_leader(45.9)
    assert again.is_leader(46.0)


# -- the loop --------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def election(server, clock, identity="me"):
    return LeaderElection(server, identity, Timing(6), Liveness(), clock)


def refused(one):
    with pytest.raises(FailureError) as error:
        one.check()
    return error.value.failure


async def test_nothing_is_changed_before_the_lease_is_ours_nor_once_it_was_not_renewed():
    server, clock = Server(), Clock()
    one = election(server, clock)
    assert refused(one).reason is Reason.LEASE_NOT_HELD
    assert await one.acquire(asyncio.Event())
    one.check()
    clock.now = 3.0
    assert refused(one).remedy is Remedy.RETRY


async def test_the_lease_is_current_while_the_api_server_answers_whoever_holds_it():
    server, clock = Server(), Clock()
    leader, standby = election(server, clock, "leader"), election(server, clock, "standby")
    assert not leader.is_current
    for one in (leader, standby):
        await one._try_acquire_or_renew()
        assert one.is_current
    clock.now = 2.9
    assert leader.is_current
    clock.now = 3.0
    assert not leader.is_current
    assert not standby.is_current
    server.away = True
    await standby._try_acquire_or_renew()
    assert not standby.is_current
    server.away = False
    await standby._try_acquire_or_renew()
    assert standby.is_current
    assert standby.other_holder == "leader"


async def test_who_waits_gets_it_once_it_is_let_go_of():
    server, clock = Server(), Clock()
    old, new = election(server, clock, "old"), election(server, clock, "new")
    await old.acquire(asyncio.Event())
    server.was_read.clear()
    waiting = asyncio.create_task(new.acquire(asyncio.Event()))
    await server.was_read.wait()
    assert not new.is_leader()
    await old.release()
    assert not old.is_leader()
    assert await waiting
    assert new.is_leader()


async def test_renewing_ends_where_another_one_holds_the_lease():
    server, clock = Server(), Clock()
    one = election(server, clock)
    await one.acquire(asyncio.Event())
    server.put(replace(server.record, holder="other\n"))
    await asyncio.wait_for(one.renew(), 30)
    refused(one)
    await one.release()
    assert server.record.holder == "other\n", "it is not ours to let go of"


async def test_waiting_ends_where_it_is_time_to_stop():
    server = Server()
    server.away = True
    stop = asyncio.Event()
    waiting = asyncio.create_task(election(server, Clock()).acquire(stop))
    await asyncio.sleep(0)
    stop.set()
    assert await asyncio.wait_for(waiting, 300) is False


async def test_a_cancellation_that_comes_with_the_end_is_not_swallowed():
    """`asyncio.wait_for` of Python 3.11 swallows it, and whoever is told to end goes on."""
    server = Server()
    server.away = True
    stop = asyncio.Event()
    waiting = asyncio.create_task(election(server, Clock()).acquire(stop))
    for _ in range(20):
        await asyncio.sleep(0)
    stop.set()
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
