"""The loop around `lease.Candidate`: acquires the Lease, renews it, releases it. I/O and logging are here."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.lease import Candidate
from rackspan.reconcile.runtime.waiting import wait_for_any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rackspan.reconcile.runtime.lease import LeaseStore, Timing
    from rackspan.reconcile.runtime.liveness import Liveness

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
        self._logged: str | None = None

    def is_leader(self) -> bool:
        """Whether this operator may change anything in Kafka or Kubernetes now."""
        return self._candidate.is_leader(self._clock())

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
            _log.warning("the Lease could not be let go of: %s", error)
        except TimeoutError:
            _log.warning("the Lease could not be let go of: no answer within %g s", seconds)

    async def _try_acquire_or_renew(self) -> None:
        """One attempt. Errors are logged only: the next attempt follows after the retry period."""
        try:
            with self._liveness.track("lease"):
                async with asyncio.timeout(self._timing.request_timeout_seconds):
                    await self._acquire_or_renew()
        except FailureError as error:
            _log.warning("the Lease: %s", error)
        except TimeoutError:
            _log.warning("the Lease: no answer from the API server within %g s", self._timing.request_timeout_seconds)
        except Exception:
            _log.exception("the Lease is looked at again")

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
