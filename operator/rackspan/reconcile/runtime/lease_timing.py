"""How long a Lease lasts, and all intervals that follow from it."""

from dataclasses import dataclass

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
