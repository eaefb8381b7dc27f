"""Waits for the Lease, renews it, lets go of it, and says at any moment whether this operator may change anything."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from rackspan.api.reasons import Reason
from rackspan.reconcile.failures import Failure, FailureError, Remedy
from rackspan.reconcile.runtime.lease import Candidate
from rackspan.reconcile.runtime.waiting import happened

if TYPE_CHECKING:
    from collections.abc import Callable

    from rackspan.reconcile.runtime.lease import LeaseStore, Timing
    from rackspan.reconcile.runtime.liveness import Liveness

_log = logging.getLogger("rackspan.lease")
_LONGEST_SHOWN: Final = 80


def uptime() -> float:
    """Seconds of a clock that never goes back, and goes on while the machine sleeps where there is such a clock."""
    boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class LeaderElection:
    """One for the process; implements `Permit`. Threads may ask whether they may go on."""

    def __init__(
        self, store: LeaseStore, identity: str, timing: Timing, liveness: Liveness, clock: Callable[[], float] = uptime
    ) -> None:
        self._store = store
        self._candidate = Candidate(identity, timing)
        self._timing = timing
        self._liveness = liveness
        self._clock = clock
        self._told: str | None = None

    def held(self) -> bool:
        """Whether anything may be changed, in Kafka or in Kubernetes."""
        return self._candidate.may_act(self._clock())

    @property
    def holder(self) -> str | None:
        """Who else holds the Lease."""
        holder = self._candidate.other_holder
        return None if holder is None else holder[:_LONGEST_SHOWN]

    @property
    def change_seconds(self) -> float:
        """How long a change may be under way."""
        return self._timing.change_seconds

    def check(self) -> None:
        """Raise FailureError unless this operator may change something now."""
        if not self.held():
            words = f"this operator does not hold its Lease, or has not renewed it for {self._timing.sure_seconds:g} s"
            raise FailureError(Failure(Reason.LEASE_NOT_HELD, f"nothing is changed: {words}", Remedy.RETRY))

    async def acquire(self, stop: asyncio.Event) -> bool:
        """Wait until the Lease is ours; False where it is time to stop."""
        while not stop.is_set():
            await self._turn()
            if self.held():
                _log.info("the Lease is ours, as %s", self._candidate.identity)
                return True
            self._tell(self.holder and f"waiting for the Lease, which {self.holder!a} holds")
            await happened(self._timing.renew_seconds, stop)
        return False

    async def keep(self) -> None:
        """Renew the Lease, until another operator is seen to hold it."""
        while self.holder is None:
            await asyncio.sleep(self._timing.renew_seconds)
            await self._turn()
            self._tell(None if self.held() else "nothing is changed until the API server has renewed the Lease")
        self._candidate = self._candidate.gave_up()
        _log.error("the Lease is held by %s: this operator ends", ascii(self.holder))

    async def release(self) -> None:
        """Leave the Lease to whoever waits for it. From now on nothing is changed."""
        candidate, self._candidate = self._candidate, self._candidate.gave_up()
        if candidate.other_holder is not None:
            return
        try:
            async with asyncio.timeout(self._timing.answer_seconds):
                await self._store.release(candidate.identity)
        except FailureError as error:
            _log.warning("the Lease could not be let go of: %s", error)
        except TimeoutError:
            _log.warning("the Lease could not be let go of: no answer within %g s", self._timing.answer_seconds)

    async def _turn(self) -> None:
        """Look at the Lease, and take or renew it where that is ours to do."""
        try:
            with self._liveness.step("lease"):
                async with asyncio.timeout(self._timing.answer_seconds):
                    await self._look()
        except FailureError as error:
            _log.warning("the Lease: %s", error)
        except TimeoutError:
            _log.warning("the Lease: no answer from the API server within %g s", self._timing.answer_seconds)
        except Exception:
            _log.exception("the Lease is looked at again")

    async def _look(self) -> None:
        record = await self._store.read()
        self._candidate = self._candidate.sees(record, self._clock())
        wanted = self._candidate.wants(self._clock())
        if wanted is None:
            return
        taken = record is None or record.holder != wanted.holder
        sent = self._clock()
        written = await self._store.write(wanted, taken=taken)
        if written is not None:
            self._candidate = self._candidate.renewed(written, sent, self._clock())

    def _tell(self, what: str | None) -> None:
        if what is not None and what != self._told:
            _log.warning("%s", what)
        if what is None and self._told is not None:
            _log.info("changes go on")
        self._told = what
