"""Only one operator is active at a time, with any clock skew and with lost responses."""

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
    """An API server with one Lease. A write succeeds only if it replaces the version that was read."""

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
        """Write to the Lease as a client that is no candidate."""
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
    """An operator with its own clock, which may lose its connection or be paused."""

    candidate: Candidate
    skew: float
    writes_time: bool = False
    """Whether its renewals have a time, by its own clock, as those of Rackspan and client-go do."""
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
        if written is not None and chance.random() < 0.8:  # else the response is lost
            self.candidate = self.candidate.after_renewal(written, local, local + took)


@pytest.mark.parametrize("writes_time", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_only_one_operator_is_active_and_only_after_changes_of_the_previous_one_have_ended(seed, writes_time):
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
            server.record = None  # a user deletes the Lease
        if writes_time and chance.random() < 0.3:
            server.annotate()
        acting = [one.candidate.identity for one in operators if one.candidate.is_leader(now + one.skew)]
        assert len(acting) <= 1
        for name in acting:
            last_act[name] = now
            acted.add(name)
            for other, at in last_act.items():
                assert other == name or now - at > TIMING.change_timeout_seconds, (
                    f"a change of {other} may be in progress"
                )
    assert len(acted) > 1, "the Lease changed its holder"


def test_lease_is_taken_only_after_its_duration_by_the_local_clock():
    held = LeaseRecord("other", 30, 4, "7")
    candidate = Candidate("me").after_read(held, 100.0)
    assert candidate.next_record(129.9) is None
    assert candidate.after_read(held, 129.0).next_record(130.0) == LeaseRecord("me", 30, 5, "7")
    assert candidate.after_read(replace(held, version="8"), 129.0).next_record(130.0) is None


def test_lease_without_renewals_is_taken_even_if_other_clients_write_to_it():
    held = LeaseRecord("other", 30, 4, "7", NOON)
    candidate = Candidate("me").after_read(held, 100.0)
    for second in range(1, 30):
        candidate = candidate.after_read(replace(held, version=f"8{second}"), 100.0 + second)
        assert candidate.next_record(100.0 + second) is None
    assert candidate.next_record(130.0) == LeaseRecord("me", 30, 5, "829")


def test_changed_renewal_time_counts_as_renewal_even_if_it_is_earlier():
    held = LeaseRecord("other", 30, 4, "7", NOON)
    earlier = replace(held, version="8", renewed_at=NOON - timedelta(hours=1))
    candidate = Candidate("me").after_read(held, 100.0).after_read(earlier, 110.0)
    assert candidate.next_record(139.9) is None
    assert candidate.next_record(140.0) == LeaseRecord("me", 30, 5, "8")


def test_deleted_lease_is_taken_only_after_its_duration_since_the_deletion_was_seen():
    held = LeaseRecord("other", 30, 4, "7", NOON)
    candidate = Candidate("me").after_read(held, 0.0).after_read(None, 10.0).after_read(None, 11.0)
    assert candidate.next_record(39.9) is None
    made_anew = candidate.after_read(replace(held, version="9"), 20.0)
    assert made_anew.next_record(49.9) is None
    assert candidate.next_record(40.0) == LeaseRecord("me", 30, 5, "")


def test_candidate_with_the_identity_of_the_holder_takes_the_lease_at_once():
    assert Candidate("me").after_read(LeaseRecord("me", 30, 4, "7"), 0.0).next_record(0.0) is not None


def test_released_lease_is_taken_at_once():
    assert Candidate("me").after_read(LeaseRecord("", 1, 4, "7"), 0.0).next_record(0.0) == LeaseRecord("me", 30, 5, "7")


def test_deleted_lease_without_renewal_time_is_taken_only_after_its_duration():
    candidate = (
        Candidate("me").after_read(LeaseRecord("other", 30, 4, "7"), 0.0).after_read(None, 10.0).after_read(None, 11.0)
    )
    assert candidate.next_record(39.0) is None
    assert candidate.next_record(40.0) == LeaseRecord("me", 30, 5, "")


def test_leader_waits_for_watch_events_after_it_could_not_renew_for_a_time():
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


async def test_changes_are_refused_before_the_lease_is_acquired_and_after_it_was_not_renewed():
    server, clock = Server(), Clock()
    one = election(server, clock)
    assert refused(one).reason is Reason.LEASE_NOT_HELD
    assert await one.acquire(asyncio.Event())
    one.check()
    clock.now = 3.0
    assert refused(one).remedy is Remedy.RETRY


async def test_lease_is_current_while_the_api_server_responds_for_leader_and_standby():
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


async def test_waiting_candidate_acquires_the_lease_after_it_is_released():
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


async def test_renew_ends_if_another_operator_holds_the_lease():
    server, clock = Server(), Clock()
    one = election(server, clock)
    await one.acquire(asyncio.Event())
    server.put(replace(server.record, holder="other\n"))
    await asyncio.wait_for(one.renew(), 30)
    refused(one)
    await one.release()
    assert server.record.holder == "other\n", "only the holder releases the Lease"


async def test_acquire_ends_when_the_stop_event_is_set():
    server = Server()
    server.away = True
    stop = asyncio.Event()
    waiting = asyncio.create_task(election(server, Clock()).acquire(stop))
    await asyncio.sleep(0)
    stop.set()
    assert await asyncio.wait_for(waiting, 300) is False


async def test_cancellation_together_with_the_stop_event_is_raised():
    """`asyncio.wait_for` of Python 3.11 loses the cancellation, so that the cancelled task continues."""
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
