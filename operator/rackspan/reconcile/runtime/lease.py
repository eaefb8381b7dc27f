"""Leader election: which operator may make changes.

The algorithm is client-go's (`tools/leaderelection`): a candidate never compares clocks. It records on its own clock
when it last saw the Lease's record change, and takes the Lease if the record has not changed for the lease duration.
The leader stops acting after half the lease duration, counted from when it sent its last successful renewal.
`Candidate` is the pure state machine. `LeaderElection` is the loop that acquires, renews and releases the Lease.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.lease_timing import Timing
from rackspan.reconcile.runtime.waiting import wait_for_any

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from rackspan.reconcile.runtime.waiting import Liveness

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The fields of a Lease that leader election uses (client-go: LeaderElectionRecord).

    `holder` is empty after the Lease was released. `version` is the object's resourceVersion, empty if there is no
    object. `renewed_at` is by the holder's clock, and is never compared with another clock.
    """

    holder: str
    duration_seconds: int
    transitions: int
    version: str = ""
    renewed_at: datetime | None = None

    def is_renewal_of(self, other: LeaseRecord) -> bool:
        """Return whether the holder has written this record since `other`.

        Each renewal has its own time. A new version without a new time may come from any client that annotates the
        Lease. If there is no time, as for a Lease that is deleted, the version counts.
        """
        if self.version == other.version:
            return False
        return self.renewed_at is None or self != replace(other, version=self.version)


class LeaseStore(Protocol):
    """Reads and writes the Lease that all replicas share. Every call may raise FailureError."""

    async def read(self) -> LeaseRecord | None:
        """Return the Lease's record, or None if there is no Lease."""

    async def write(self, record: LeaseRecord, *, taken: bool) -> LeaseRecord | None:
        """Replace version `record.version`. Return the written record, or None on a conflict.

        `taken` says that the holder changes. Then `acquireTime` is set.
        """

    async def release(self, identity: str) -> None:
        """Clear the holder if it is `identity`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One operator's state of the leader election. Times are seconds on its own monotonic clock."""

    identity: str
    timing: Timing = field(default_factory=Timing)
    observed: LeaseRecord | None = None
    observed_at: float = NEVER
    """When the current `observed` was first seen."""
    leading_until: float = NEVER
    """Until when no other operator can hold the Lease."""
    caught_up_at: float = NEVER
    """When the watch events that were missed during a lapse have arrived (`Timing.catch_up_seconds`)."""

    def after_read(self, record: LeaseRecord | None, now: float) -> Candidate:
        """Return the state after a read. The holder of a deleted Lease may have renewed it just before the deletion."""
        if record is None and self.observed is not None:
            record = replace(self.observed, version="", renewed_at=None)
        changed = self.observed is None or (record is not None and record.is_renewal_of(self.observed))
        return replace(self, observed=record, observed_at=now if changed else self.observed_at)

    def next_record(self, now: float) -> LeaseRecord | None:
        """Return the record to write, with the version to replace, or None while another operator holds the Lease."""
        observed, seconds = self.observed, self.timing.lease_seconds
        if observed is None:
            return LeaseRecord(self.identity, seconds, 0)
        if observed.holder == self.identity and (observed.version or now < self.leading_until):
            return replace(observed, duration_seconds=seconds)
        if observed.holder and now < self.observed_at + observed.duration_seconds:
            return None
        return LeaseRecord(self.identity, seconds, observed.transitions + 1, observed.version)

    def after_renewal(self, written: LeaseRecord, sent: float, now: float) -> Candidate:
        """Return the state after the API server accepted the record that was sent at `sent`."""
        lapsed = self.leading_until != NEVER and now >= self.leading_until
        return replace(
            self,
            observed=written,
            observed_at=now,
            leading_until=sent + self.timing.renew_deadline_seconds,
            caught_up_at=now + self.timing.catch_up_seconds if lapsed else self.caught_up_at,
        )

    def resigned(self) -> Candidate:
        """Return the state after releasing the Lease, or after observing that another operator holds it."""
        return replace(self, leading_until=NEVER)

    @property
    def other_holder(self) -> str | None:
        """The identity of the other operator that was last seen to hold the Lease."""
        holder = self.observed.holder if self.observed else ""
        return holder if holder not in ("", self.identity) else None

    def is_leader(self, now: float) -> bool:
        """Return whether this operator may make changes: it holds the Lease, and has caught up after any lapse."""
        return self.caught_up_at <= now < self.leading_until


_log = logging.getLogger("rackspan.lease")
_MAX_HOLDER: Final = 80
"""The number of characters that are shown of another holder's identity."""


def uptime() -> float:
    """Return monotonic seconds: on Linux CLOCK_BOOTTIME, which also counts while the machine is suspended."""
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class LeaderElection:
    """The leader election of this process. Implements `Permit`, whose methods are safe to call from any thread."""

    def __init__(
        self, store: LeaseStore, identity: str, timing: Timing, liveness: Liveness, clock: Callable[[], float] = uptime
    ) -> None:
        self._store = store
        self._candidate = Candidate(identity, timing)
        self._timing = timing
        self._liveness = liveness
        self._clock = clock
        self._answered_at = NEVER
        self._logged: str | None = None

    def is_leader(self) -> bool:
        """Return whether this operator may make changes in Kafka or Kubernetes now."""
        return self._candidate.is_leader(self._clock())

    @property
    def is_current(self) -> bool:
        """Whether the API server has responded to an attempt within the renew deadline."""
        return self._clock() < self._answered_at + self._timing.renew_deadline_seconds

    @property
    def other_holder(self) -> str | None:
        """The identity of another operator that holds the Lease, shortened."""
        holder = self._candidate.other_holder
        return holder and holder[:_MAX_HOLDER]

    @property
    def change_timeout_seconds(self) -> float:
        """`Timing.change_timeout_seconds`."""
        return self._timing.change_timeout_seconds

    def check(self) -> None:
        """Raise FailureError (`LeaseNotHeld`) unless this operator is the leader now."""
        if not self.is_leader():
            seconds = self._timing.renew_deadline_seconds
            why = f"this operator does not hold its Lease, or has not renewed it for {seconds:g} s"
            raise FailureError(Failure(Reason.LEASE_NOT_HELD, f"nothing is changed: {why}", Remedy.RETRY))

    async def acquire(self, stop: asyncio.Event) -> bool:
        """Wait until this operator is the leader. Return False if `stop` was set before."""
        while not stop.is_set():
            await self._try_acquire_or_renew()
            if self.is_leader():
                _log.info("the Lease is ours, as %s", self._candidate.identity)
                return True
            self._log_state(self.other_holder and f"waiting for the Lease, which {self.other_holder!a} holds")
            await wait_for_any(self._timing.retry_period_seconds, stop)
        return False

    async def renew(self) -> None:
        """Renew the Lease periodically. Return when another operator holds it."""
        while self.other_holder is None:
            await asyncio.sleep(self._timing.retry_period_seconds)
            await self._try_acquire_or_renew()
            self._log_state(
                None if self.is_leader() else "nothing is changed until the API server has renewed the Lease"
            )
        self._candidate = self._candidate.resigned()
        _log.error("the Lease is held by %s: this operator ends", ascii(self.other_holder))

    async def release(self) -> None:
        """Stop leading and clear the Lease's holder, so that another operator need not wait until the Lease expires."""
        candidate, self._candidate = self._candidate, self._candidate.resigned()
        if candidate.other_holder is not None:
            return
        seconds = self._timing.request_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._store.release(candidate.identity)
        except FailureError as error:
            _log.warning("the Lease could not be released: %s", error)
        except TimeoutError:
            _log.warning("the Lease could not be released: no answer within %g s", seconds)

    async def _try_acquire_or_renew(self) -> None:
        """Try once to acquire or renew. Errors are only logged: the next attempt follows after the retry period."""
        try:
            with self._liveness.track("lease"):
                async with asyncio.timeout(self._timing.request_timeout_seconds):
                    await self._acquire_or_renew()
            self._answered_at = self._clock()
        except FailureError as error:
            _log.warning("the Lease: %s", error)
        except TimeoutError:
            _log.warning("the Lease: no answer from the API server within %g s", self._timing.request_timeout_seconds)
        except Exception:
            _log.exception("the Lease: the operator tries again")

    async def _acquire_or_renew(self) -> None:
        record = await self._store.read()
        self._candidate = self._candidate.after_read(record, self._clock())
        wanted = self._candidate.next_record(self._clock())
        if wanted is None:
            return
        taken = record is None or record.holder != wanted.holder
        sent = self._clock()
        written = await self._store.write(wanted, taken=taken)
        if written is not None:
            self._candidate = self._candidate.after_renewal(written, sent, self._clock())

    def _log_state(self, what: str | None) -> None:
        """Log a state that prevents changes, once when it begins and once when it ends. None means no such state."""
        if what is not None and what != self._logged:
            _log.warning("%s", what)
        if what is None and self._logged is not None:
            _log.info("changes go on")
        self._logged = what
