"""Leader election: which operator may change anything.

The algorithm is client-go's (`tools/leaderelection`): a candidate never compares clocks. It notes on its own clock when
it last saw the Lease's record change, and takes the Lease once the record has not changed for the lease duration. The
leader stops acting after half of that, counted from when its last successful renewal was sent. `Candidate` is the pure
state machine; `LeaderElection` is the loop around it, which acquires the Lease, renews and releases it.
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

    `holder` is empty once the Lease was released. `version` is the object's resourceVersion, empty where there is no
    object yet. `renewed_at` is by the holder's clock, and is not compared with another.
    """

    holder: str
    duration_seconds: int
    transitions: int
    version: str = ""
    renewed_at: datetime | None = None

    def is_renewal_of(self, other: LeaseRecord) -> bool:
        """Whether the holder has written it since `other`.

        Each renewal has its own time: a new version without one may be of anybody who annotates the Lease. Where there
        is no time, as of a Lease that is gone, the version counts.
        """
        if self.version == other.version:
            return False
        return self.renewed_at is None or self != replace(other, version=self.version)


class LeaseStore(Protocol):
    """Reads and writes the one Lease that all replicas share. Every call raises FailureError."""

    async def read(self) -> LeaseRecord | None:
        """The Lease's record; None where there is no Lease."""

    async def write(self, record: LeaseRecord, *, taken: bool) -> LeaseRecord | None:
        """Replace version `record.version`; the record as written, None on a conflict.

        `taken` says that the holder changes, and sets `acquireTime`.
        """

    async def release(self, identity: str) -> None:
        """Clear the holder, if it is `identity`."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one operator knows about the Lease. Times are seconds on its own monotonic clock."""

    identity: str
    timing: Timing = field(default_factory=Timing)
    observed: LeaseRecord | None = None
    observed_at: float = NEVER
    """When `observed` was first seen in its present form."""
    leading_until: float = NEVER
    """Until when no other operator can hold the Lease."""
    caught_up_at: float = NEVER
    """From when on the watch events of a lapse have arrived (`Timing.catch_up_seconds`)."""

    def after_read(self, record: LeaseRecord | None, now: float) -> Candidate:
        """The state after reading the Lease. The holder of one that is gone may have renewed it just before."""
        if record is None and self.observed is not None:
            record = replace(self.observed, version="", renewed_at=None)
        changed = self.observed is None or (record is not None and record.is_renewal_of(self.observed))
        return replace(self, observed=record, observed_at=now if changed else self.observed_at)

    def next_record(self, now: float) -> LeaseRecord | None:
        """The record to write, with the version that it replaces; None while another operator holds the Lease."""
        observed, seconds = self.observed, self.timing.lease_seconds
        if observed is None:
            return LeaseRecord(self.identity, seconds, 0)
        if observed.holder == self.identity and (observed.version or now < self.leading_until):
            return replace(observed, duration_seconds=seconds)
        if observed.holder and now < self.observed_at + observed.duration_seconds:
            return None
        return LeaseRecord(self.identity, seconds, observed.transitions + 1, observed.version)

    def after_renewal(self, written: LeaseRecord, sent: float, now: float) -> Candidate:
        """The state after the API server accepted the record that was sent at `sent`."""
        lapsed = self.leading_until != NEVER and now >= self.leading_until
        return replace(
            self,
            observed=written,
            observed_at=now,
            leading_until=sent + self.timing.renew_deadline_seconds,
            caught_up_at=now + self.timing.catch_up_seconds if lapsed else self.caught_up_at,
        )

    def resigned(self) -> Candidate:
        """The state after releasing the Lease, or after seeing that another operator holds it."""
        return replace(self, leading_until=NEVER)

    @property
    def other_holder(self) -> str | None:
        """The identity of the other operator that was last seen to hold the Lease."""
        holder = self.observed.holder if self.observed else ""
        return holder if holder not in ("", self.identity) else None

    def is_leader(self, now: float) -> bool:
        """Whether this operator may change anything: it holds the Lease, and has caught up after any lapse."""
        return self.caught_up_at <= now < self.leading_until


_log = logging.getLogger("rackspan.lease")
_MAX_HOLDER: Final = 80
"""Characters of another holder's identity that are shown."""


def uptime() -> float:
    """Seconds on a monotonic clock; on Linux CLOCK_BOOTTIME, which also counts while the machine is suspended."""
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class LeaderElection:
    """One per process. Implements `Permit`, whose methods are safe to call from any thread."""

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
        """Whether this operator may change anything in Kafka or Kubernetes now."""
        return self._candidate.is_leader(self._clock())

    @property
    def is_current(self) -> bool:
        """Whether the API server has answered an attempt within the renew deadline."""
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
        """Wait until this operator is the leader; False where `stop` was set before."""
        while not stop.is_set():
            await self._try_acquire_or_renew()
            if self.is_leader():
                _log.info("the Lease is ours, as %s", self._candidate.identity)
                return True
            self._log_state(self.other_holder and f"waiting for the Lease, which {self.other_holder!a} holds")
            await wait_for_any(self._timing.retry_period_seconds, stop)
        return False

    async def renew(self) -> None:
        """Renew the Lease periodically; return once another operator holds it."""
        while self.other_holder is None:
            await asyncio.sleep(self._timing.retry_period_seconds)
            await self._try_acquire_or_renew()
            self._log_state(
                None if self.is_leader() else "nothing is changed until the API server has renewed the Lease"
            )
        self._candidate = self._candidate.resigned()
        _log.error("the Lease is held by %s: this operator ends", ascii(self.other_holder))

    async def release(self) -> None:
        """Stop leading, and clear the Lease's holder, so that another operator need not wait for it to expire."""
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
        """One attempt. Errors are logged only: the next attempt follows after the retry period."""
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
        """Log a state that holds changes up once, when it begins; None is its end."""
        if what is not None and what != self._logged:
            _log.warning("%s", what)
        if what is None and self._logged is not None:
            _log.info("changes go on")
        self._logged = what
