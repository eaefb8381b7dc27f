"""Who may act: one operator at a time holds a Lease, and acts only while it is sure of that. Pure: times are arguments.

The rules are client-go's leader election. A Lease is somebody's for as long as its record keeps changing. How long ago
it last did, each operator measures by its own clock, so clocks need not agree. Who holds it is sure of it for half of
its time, counted from when its last successful renewal was sent: it has stopped long before another one may begin.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

NEVER = float("-inf")
LEASE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Timing:
    """Everything follows from how long a Lease that nobody renews stays its last holder's."""

    lease_seconds: int = LEASE_SECONDS

    @property
    def sure_seconds(self) -> float:
        """How long its holder goes on after a renewal was sent."""
        return self.lease_seconds / 2

    @property
    def change_seconds(self) -> float:
        """How long a change may be under way: what is sent last has ended before the Lease can be another's."""
        return self.lease_seconds / 3

    @property
    def renew_seconds(self) -> float:
        """How often it is renewed, or looked at by who waits for it."""
        return self.lease_seconds / 10

    @property
    def answer_seconds(self) -> float:
        """How long one answer of the API server is waited for: there is time for another try."""
        return self.lease_seconds / 6

    @property
    def news_seconds(self) -> float:
        """After a time without the API server: how long news of what changed meanwhile is waited for."""
        return self.lease_seconds / 6


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a Lease says. The holder is empty where it was let go of, `version` where there is no such object."""

    holder: str
    seconds: int
    transitions: int
    version: str = ""


class LeaseStore(Protocol):
    """The one Lease that operators share. Raises FailureError."""

    async def read(self) -> LeaseRecord | None:
        """What the Lease says; None where there is none."""

    async def write(self, record: LeaseRecord, *, taken: bool) -> LeaseRecord | None:
        """Replace the record of `record.version`; None where that is not the latest. `taken`: the holder changes."""

    async def release(self, identity: str) -> None:
        """Leave the Lease without a holder, if this one holds it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one operator knows of the Lease. Times are seconds of its own clock, which never goes back."""

    identity: str
    timing: Timing = field(default_factory=Timing)
    seen: LeaseRecord | None = None
    changed_at: float = NEVER
    """When the record was first seen as it is."""
    sure_until: float = NEVER
    """Until when the Lease is certainly ours."""
    informed_at: float = NEVER
    """From when on what is known of Kubernetes' objects is not older than the Lease allows."""

    def sees(self, record: LeaseRecord | None, now: float) -> Candidate:
        """After a look at the Lease; None where there is none. One that was deleted may still have its holder."""
        if record is None and self.seen is not None:
            record = replace(self.seen, version="")
        changed = self.seen is None or record != self.seen
        return replace(self, seen=record, changed_at=now if changed else self.changed_at)

    def wants(self, now: float) -> LeaseRecord | None:
        """The record to write, at the version that is to be replaced; None while the Lease is another's."""
        seen, seconds = self.seen, self.timing.lease_seconds
        if seen is None:
            return LeaseRecord(self.identity, seconds, 0)
        if seen.holder == self.identity and (seen.version or now < self.sure_until):
            return replace(seen, seconds=seconds)
        if seen.holder and now < self.changed_at + seen.seconds:
            return None
        return LeaseRecord(self.identity, seconds, seen.transitions + 1, seen.version)

    def renewed(self, written: LeaseRecord, sent: float, now: float) -> Candidate:
        """After the API server took the record that was sent at `sent`."""
        lapsed = self.sure_until != NEVER and now >= self.sure_until
        return replace(
            self,
            seen=written,
            changed_at=now,
            sure_until=sent + self.timing.sure_seconds,
            informed_at=now + self.timing.news_seconds if lapsed else self.informed_at,
        )

    def gave_up(self) -> Candidate:
        """After the Lease was let go of, or was seen to be another's."""
        return replace(self, sure_until=NEVER)

    @property
    def other_holder(self) -> str | None:
        """Who else holds the Lease, as far as is known."""
        return self.seen.holder if self.seen is not None and self.seen.holder not in ("", self.identity) else None

    def may_act(self, now: float) -> bool:
        """Whether the Lease is certainly ours, and what is known is not too old."""
        return self.informed_at <= now < self.sure_until
