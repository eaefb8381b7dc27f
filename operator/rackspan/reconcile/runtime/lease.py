"""Leader election as a state machine: which operator may change anything. Pure: times are arguments.

The algorithm is client-go's (`tools/leaderelection`): a candidate never compares clocks. It notes on its own clock when
it last saw the Lease's record change, and takes the Lease once the record has not changed for the lease duration. The
leader stops acting after half of that, counted from when its last successful renewal was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

NEVER = float("-inf")
LEASE_SECONDS = 30
"""Default lease duration."""


@dataclass(frozen=True, slots=True)
class Timing:
    """All intervals in seconds, as fractions of the lease duration (`spec.leaseDurationSeconds`)."""

    lease_seconds: int = LEASE_SECONDS

    @property
    def renew_deadline_seconds(self) -> float:
        """How long after sending its last successful renewal the leader still acts (client-go: RenewDeadline)."""
        return self.lease_seconds / 2

    @property
    def change_timeout_seconds(self) -> float:
        """Timeout of one change in Kafka or Kubernetes: even the last one ends before another operator can lead."""
        return self.lease_seconds / 3

    @property
    def retry_period_seconds(self) -> float:
        """Pause between two attempts to acquire or renew the Lease (client-go: RetryPeriod)."""
        return self.lease_seconds / 10

    @property
    def request_timeout_seconds(self) -> float:
        """Timeout of one attempt; short enough for another one before the renew deadline."""
        return self.lease_seconds / 6

    @property
    def catch_up_seconds(self) -> float:
        """How long a leader whose renewals had lapsed waits for watch events that it missed, before it acts again."""
        return self.lease_seconds / 6


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The fields of a Lease that leader election uses (client-go: LeaderElectionRecord).

    `holder` is empty once the Lease was released. `version` is the object's resourceVersion, empty where there is no
    object yet.
    """

    holder: str
    duration_seconds: int
    transitions: int
    version: str = ""


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
        """The state after reading the Lease. The holder of a Lease that was deleted may still be acting."""
        if record is None and self.observed is not None:
            record = replace(self.observed, version="")
        changed = self.observed is None or record != self.observed
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
